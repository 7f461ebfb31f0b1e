# SPDX-License-Identifier: Apache-2.0
"""How much work each program of the catalog is, as programs/measure.py once measured it under glibc."""

from __future__ import annotations

import json
from functools import cache

from ..model import places


def measured(name: str) -> dict[str, dict[str, float]]:
    """By size: `wall` s, `peak_rss` B, `mallocs` calls, `malloc_bytes` asked for; empty when it was not measured."""
    return _all().get(name, {})


@cache
def _all() -> dict[str, dict[str, dict[str, float]]]:
    try:
        return json.loads((places.root() / "programs" / "measured.json").read_text())
    except OSError:
        return {}

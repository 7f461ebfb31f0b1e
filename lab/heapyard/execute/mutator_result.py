# SPDX-License-Identifier: Apache-2.0
"""What a mutator wrote: its own responses, in the lab's units, and the checksum of the work it did."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from ..model.damage import DAMAGE, in_words, object_of
from ..model.metrics import METRICS, Direction, Metric, define, own_metric

# Units that mutators use, as (the unit stored, what to multiply with).
_UNITS = {
    "s": ("s", 1.0),
    "ms": ("s", 1e-3),
    "us": ("s", 1e-6),
    "ns": ("s", 1e-9),
    "B": ("B", 1.0),
    "KiB": ("B", 1024.0),
    "MiB": ("B", 1048576.0),
    "1": ("1", 1.0),
    "1/s": ("1/s", 1.0),
    "operations/s": ("1/s", 1.0),
    "objects/s": ("1/s", 1.0),
}


@dataclass(frozen=True, slots=True)
class OwnResult:
    """`metrics` by the names under which they are stored; `checksum` tells which work was done."""

    metrics: dict[str, float]
    defined: tuple[Metric, ...]
    checksum: str
    content: bytes


def read_result(path: Path) -> tuple[OwnResult | None, str]:
    """The result in a file, or None and what is wrong with it, to follow the mutator's name in a sentence. O(bytes).

    A response with the name of one of the lab's own becomes `own_NAME`: the lab's speaks of the whole process. Values
    that are not finite are absent (no average over no sample).
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None, "wrote no result"
    try:
        given = object_of(content)
        metrics, defined = _responses(given["metrics"])
        checksum = str(given.get("checksum", ""))
    except DAMAGE as error:
        return None, f"wrote a result that cannot be read ({in_words(error)})"
    define(defined)
    return OwnResult(metrics, defined, checksum, content), ""


def _responses(given: list[dict[str, Any]]) -> tuple[dict[str, float], tuple[Metric, ...]]:
    metrics, defined = {}, []
    for one in given:
        if not isinstance(one["name"], str) or one["direction"] not in get_args(Direction):
            raise ValueError(f"a metric has the name {one['name']!r} and the direction {one['direction']!r}")
        unit, factor = _UNITS[one["unit"]]
        name = f"own_{one['name']}" if one["name"] in METRICS else one["name"]
        title = f"{METRICS[one['name']].title} of the mutator" if one["name"] in METRICS else ""
        defined.append(own_metric(name, unit, one["direction"], title))
        if one["value"] is not None and math.isfinite(one["value"]):
            metrics[name] = float(one["value"]) * factor
    return metrics, tuple(defined)

# SPDX-License-Identifier: Apache-2.0
"""A trial on a simulated machine as `heapyard show --trial` shows it: the machine, and the lines that moved most."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..model.units import format_duration


def machine_in_words(told: Mapping[str, Any]) -> str:
    """`AMD Ryzen 9 5950X (Zen 3), 16 cores: 4 cores, seed 5; 1,345,296 accesses in 330 ms of real time (QEMU ...)`."""
    took = f"{told['accesses']:,} accesses in {format_duration(told['real_seconds'])} of real time"
    return f"like {told['machine']}: {told['cores']} cores, seed {told['seed']}; {took} ({told['engine']})"


def lines_in_words(stored: list[Mapping[str, Any]], transfers: float) -> list[str]:
    """Each line with its writers, and below it who asks for it."""
    from ..model.simulation import Line
    from ..profile.moving_lines import named
    from ..report.simulation_table import functions_in_words, line_in_words
    from ..store.codec import decode

    found: list[str] = []
    for line in named([decode(Line, json.dumps(one)) for one in stored]):
        found += [line_in_words(line, int(transfers)), f"  {functions_in_words(line)}"]
    return found

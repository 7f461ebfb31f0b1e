# SPDX-License-Identifier: Apache-2.0
"""Time against memory as a picture in characters: works on any terminal, without colour, at 80 columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..model.analysis import ParetoPoint

HEIGHT = 13
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def scatter(
    points: Sequence[ParetoPoint], baseline: str, *, memory: str, width: int = 76
) -> list[str]:
    """Lines of a plot of time ratio (to the right: slower) against memory ratio (up: more), with a legend below.

    Log scales with 1 always inside; `memory` names the response. Letters stand for treatments; where two fall on one cell
    the first in the legend shows and the legend names the other beside it. O(points + width x height).
    """
    shown = [p for p in points if _positive(p.time.ratio) and _positive(p.memory.ratio)]
    if len(shown) < 2:
        return []
    columns, rows = width - 10, HEIGHT
    across = _Axis([p.time.ratio for p in shown], columns)
    upward = _Axis([p.memory.ratio for p in shown], rows)
    grid = [[" "] * columns for _ in range(rows)]
    vertical, horizontal, dot = "│", "─", "·"
    for row in grid:
        row[across(1.0)] = dot
    grid[rows - 1 - upward(1.0)] = [dot] * columns
    keys = {p.treatment: "0" if p.treatment == baseline else LETTERS[i % len(LETTERS)] for i, p in enumerate(shown)}
    taken: dict[tuple[int, int], str] = {}
    hidden: dict[str, str] = {}
    for point in shown:
        place = rows - 1 - upward(point.memory.ratio), across(point.time.ratio)
        if place in taken:
            hidden[point.treatment] = taken[place]
            continue
        taken[place] = keys[point.treatment]
        grid[place[0]][place[1]] = keys[point.treatment]
    top, bottom = upward.value(rows - 1), upward.value(0)
    left, right = across.value(0), across.value(columns - 1)
    named = f"{memory} (" if "memory" in memory else f"memory ({memory}, "
    lines = [f"{named}ratio; lower is better)"]
    for i, row in enumerate(grid):
        label = (
            f"{top:.2f}"
            if i == 0
            else f"{bottom:.2f}"
            if i == rows - 1
            else "1.00"
            if i == rows - 1 - upward(1.0)
            else ""
        )
        lines.append(f"{label:>7} {vertical}{''.join(row).rstrip()}")
    lines.append(f"{'':>7} └{horizontal * columns}")
    title = "time (ratio; lower is better)"
    lines.append(f"{'':>9}{left:<6.2f}{title:^{columns - 12}}{right:>6.2f}")
    legend = [
        f"{keys[p.treatment]} {p.treatment}"
        + ("*" if p.on_front else "")
        + (f" (under {hidden[p.treatment]})" if p.treatment in hidden else "")
        for p in shown
    ]
    return lines + _fold(legend, width, indent=9) + [f"{'':>9}* nothing is ahead of it in both"]


class _Axis:
    """Maps a ratio to a cell of `cells` on a log scale that holds all values and 1, with a margin on both sides."""

    def __init__(self, values: Sequence[float], cells: int):
        logs = [0.0, *(math.log(v) for v in values)]
        margin = max((max(logs) - min(logs)) * 0.06, 0.01)
        self.low, self.high, self.cells = min(logs) - margin, max(logs) + margin, cells

    def __call__(self, value: float) -> int:
        return min(int((math.log(value) - self.low) / (self.high - self.low) * self.cells), self.cells - 1)

    def value(self, cell: int) -> float:
        return math.exp(self.low + (cell + 0.5) / self.cells * (self.high - self.low))


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _fold(items: Sequence[str], width: int, indent: int) -> list[str]:
    lines, line = [], " " * indent
    for item in items:
        if len(line) + len(item) + 2 > width and line.strip():
            lines.append(line.rstrip())
            line = " " * indent
        line += item + "  "
    return [*lines, line.rstrip()] if line.strip() else lines

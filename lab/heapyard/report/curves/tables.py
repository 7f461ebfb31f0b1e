# SPDX-License-Identifier: Apache-2.0
"""The numbers of a study's figure in words: treatments down, levels across, all in one unit, with their uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...model.analysis import Analysis, CurvePoint, Curves
from ...model.metrics import metric_named
from .axes import levels_shown, oversubscribed_from
from .units import Readable, readable
from ..words import direction_text, percent

Number = tuple[str, str]  # the mean and its interval in words


@dataclass(frozen=True, slots=True)
class CurveTable:
    """`unit` is "" for plain numbers; `rows`: treatment -> per level its number, both "" where it was not measured."""

    title: str
    source: str
    unit: str
    direction: str
    over: str
    levels: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Number, ...]], ...]
    halves: tuple[tuple[float, ...], ...]  # like rows: half of the interval as a share of the mean; nan: not measured
    note: str  # what must be known of some levels, "" if nothing


def curve_table(curves: Curves, baseline: str) -> CurveTable:
    """O(points)."""
    metric = metric_named(curves.figure.metric)
    unit = readable(curves, metric)
    found = {(p.treatment, p.level): p for p in curves.points}
    treatments = list(dict.fromkeys(p.treatment for p in curves.points))
    grid = [[found.get((t, level)) for level in curves.levels] for t in treatments]
    first = oversubscribed_from(curves)
    return CurveTable(
        curves.figure.title,
        curves.figure.source,
        f"ratio to {baseline}" if curves.figure.relative else unit.name,
        direction_text(metric),
        curves.figure.over.replace("_", " "),
        tuple(levels_shown(curves)),
        tuple((t, tuple(_number(p, unit) for p in points)) for t, points in zip(treatments, grid, strict=True)),
        tuple(tuple(_half(p) for p in points) for points in grid),
        f"From {first} {curves.figure.over} on there are more threads than processors." if first else "",
    )


def curve_tables(analysis: Analysis) -> list[CurveTable]:
    """Those of every figure of which something was measured."""
    return [curve_table(c, analysis.baseline) for c in analysis.curves if c.points]


def heading(table: CurveTable) -> str:
    """`Title (source), ms; lower is better`."""
    source = f" ({table.source})" if table.source else ""
    unit = f", {table.unit}" if table.unit else ""
    return f"{table.title}{source}{unit}; {table.direction}"


def widest(halves: tuple[float, ...]) -> str:
    """The widest half of some intervals: `4.8 %`; "?" where one has no end, "" where nothing was measured."""
    known = [half for half in halves if not math.isnan(half)]
    if not known:
        return ""
    return "> 999 %" if 9.995 <= max(known) < math.inf else percent(max(known))


def _number(point: CurvePoint | None, unit: Readable) -> Number:
    if point is None:
        return "", ""
    mean = point.mean
    if math.isfinite(mean.high):
        return unit.show(mean.ratio), f"{unit.show(mean.low)} to {unit.show(mean.high)}"
    return unit.show(mean.ratio), "one block" if point.blocks < 2 else f"{unit.show(mean.low)} or more"


def _half(point: CurvePoint | None) -> float:
    if point is None:
        return math.nan
    if not math.isfinite(point.mean.high):
        return math.inf
    return (point.mean.high - point.mean.low) / 2 / point.mean.ratio if point.mean.ratio else 0.0

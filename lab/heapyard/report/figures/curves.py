# SPDX-License-Identifier: Apache-2.0
"""A study's figures: a response over the levels of a factor, a curve per treatment, as the papers draw them.

Curves are told apart by shape, by colour and by their names at the right edge. Bars are intervals; treatments step
aside from each other at a level, so that bars do not cover each other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from ...model.analysis import CurvePoint, Curves
from ...model.metrics import Metric, metric_named
from ..curves.axes import Levels, Reach, levels_axis, oversubscribed_from, reach, x_axis, y_axis
from ..curves.units import Readable, readable
from .label_layout import GAP, edge_places
from .parts import BAND, FAINT, FONT, INK, LETTER, NARROW, WIDE, Row, Spec, described, fill
from ..words import direction_text

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")
COLOURS = tuple(f"var(--series-{i})" for i in range(1, 11))  # the baseline is drawn in ink
LONGEST = {WIDE: 26, NARROW: 16}  # letters of a name at the right edge
HEIGHT = {WIDE: 300, NARROW: 260}  # pixels, more where the names need it
ROOM = {WIDE: 796, NARROW: 290}  # pixels for curves and names
OVERSUBSCRIBED = {WIDE: ["more threads than processors"], NARROW: ["more threads", "than processors"]}
LINE = FONT + 4  # pixels


def draw(curves: Curves, baseline: str, shape: str) -> Spec:
    """The figure with its data. O(points log points)."""
    metric = metric_named(curves.figure.metric)
    unit = readable(curves, metric)
    treatments = list(dict.fromkeys(p.treatment for p in curves.points))
    names = {t: shortened(t, LONGEST[shape]) for t in treatments}
    width = ROOM[shape] - round(max(map(len, names.values()), default=0) * LETTER) - 30
    height = max(HEIGHT[shape], round(len(names) * GAP))
    band = len(OVERSUBSCRIBED[shape]) * LINE / height if oversubscribed_from(curves) else 0.0
    levels, ends = levels_axis(curves, len(treatments), width), reach(curves, unit, band)
    rows = [_row(p, unit, levels, ends, treatments) for p in curves.points]
    x, y = x_axis(curves, levels, shape), y_axis(axis_title(curves, metric, unit, ends), ends, shape)
    looks = _looks(treatments, baseline)
    layer = [
        *_oversubscribed(curves, levels, x, OVERSUBSCRIBED[shape]),
        *_marks(x, y, looks, baseline),
        *_names(_labels(rows, names, ends, height), looks),
    ]
    return fill(described(width=width, height=height, padding=4, layer=layer), rows)


def _row(point: CurvePoint, unit: Readable, levels: Levels, ends: Reach, treatments: Sequence[str]) -> Row:
    mean = point.mean
    low, high = (mean.low, mean.high) if math.isfinite(mean.high) else (mean.ratio, mean.ratio)
    return {
        "treatment": point.treatment,
        "x": levels.place(point.level, treatments.index(point.treatment), len(treatments)),
        "y": mean.ratio / unit.size,
        "low": max(low / unit.size, ends.low),
        "high": min(high / unit.size, ends.high),
    }


def _marks(x: Spec, y: Spec, looks: tuple[Spec, Spec], baseline: str) -> list[Spec]:
    colour, shapes = looks
    wider = {"condition": {"test": f"datum.treatment === {json.dumps(baseline)}", "value": 2.6}, "value": 1.6}
    return [
        {
            "mark": {"type": "rule", "opacity": 0.75},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour},
        },
        {"mark": {"type": "line"}, "encoding": {"x": x, "y": y, "color": colour, "strokeWidth": wider}},
        {
            "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1},
            "encoding": {"x": x, "y": y, "color": colour, "shape": shapes},
        },
    ]


def _looks(treatments: Sequence[str], baseline: str) -> tuple[Spec, Spec]:
    """How treatments are told apart: (colour, shape)."""
    which = {"field": "treatment", "type": "nominal", "legend": None}
    others = [t for t in treatments if t != baseline]
    colours = [INK if t == baseline else COLOURS[others.index(t) % len(COLOURS)] for t in treatments]
    shapes = [SHAPES[i % len(SHAPES)] for i in range(len(treatments))]
    return (
        {**which, "scale": {"domain": list(treatments), "range": colours}},
        {**which, "scale": {"domain": list(treatments), "range": shapes}},
    )


def _oversubscribed(curves: Curves, levels: Levels, x: Spec, label: list[str]) -> list[Spec]:
    """A band with its name over the levels at which more threads ran than there are processors."""
    first = oversubscribed_from(curves)
    if first is None:
        return []
    before = [place for place in levels.places.values() if place < levels.places[first]]
    start = (max(before) + levels.places[first]) / 2 if before else 0.0
    data = {"values": [{"start": start, "end": levels.width, "text": label}]}
    words: Spec = {"type": "text", "align": "left", "baseline": "top", "dx": 6, "dy": 4, "color": FAINT}
    return [
        {
            "data": data,
            "mark": {"type": "rect", "color": BAND, "opacity": 0.7},
            "encoding": {"x": {**x, "field": "start"}, "x2": {"field": "end"}},
        },
        {
            "data": data,
            "mark": words,
            "encoding": {"x": {**x, "field": "start"}, "y": {"value": 0}, "text": {"field": "text"}},
        },
    ]


def shortened(name: str, longest: int) -> str:
    """A name of at most so many letters; beginning and end stay, since variants differ at the end."""
    if len(name) <= longest:
        return name
    end = longest // 3
    return f"{name[: longest - end - 1]}…{name[-end:]}"


def _labels(rows: Sequence[Row], names: dict[str, str], ends: Reach, height: int) -> list[Row]:
    last: dict[str, Row] = {}
    for row in rows:
        if row["treatment"] not in last or row["x"] > last[row["treatment"]]["x"]:
            last[row["treatment"]] = row
    places = edge_places([ends.place(last[t]["y"], height) for t in names], height)
    return [
        {"name": name, "treatment": t, "py": height - place}
        for (t, name), place in zip(names.items(), places, strict=True)
    ]


def _names(labels: Sequence[Row], looks: tuple[Spec, Spec]) -> list[Spec]:
    data, (colour, shapes) = {"values": list(labels)}, looks
    place = {"x": {"value": "width"}, "y": {"field": "py", "type": "quantitative", "scale": None}, "color": colour}
    words = {"type": "text", "align": "left", "baseline": "middle", "dx": 21, "fontSize": FONT, "fontWeight": 600}
    return [
        {
            "data": data,
            "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1, "xOffset": 12},
            "encoding": {**place, "shape": shapes},
        },
        {"data": data, "mark": words, "encoding": {**place, "text": {"field": "name"}}},
    ]


def axis_title(curves: Curves, metric: Metric, unit: Readable, ends: Reach) -> tuple[str, str]:
    """Two lines: `allocation time`, `(ms, log scale; lower is better)`."""
    figure = curves.figure
    title = figure.y_title or (f"{metric.title}, ratio to the baseline" if figure.relative else metric.title)
    scale = ", ".join(part for part in (unit.name, "log scale" if ends.log else "") if part)
    inside = "; ".join(part for part in (scale, direction_text(metric)) if part)
    return title, f"({inside})"

"""A study's figures: a response over the levels of a factor, a curve per treatment, as the papers draw them.

Curves are told apart by shape, by colour and by their names at the right edge; intervals are bars.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..model.analysis import CurvePoint, Curves
from ..model.figure import is_number
from ..model.metrics import Metric, metric_named
from .curve_units import Readable, readable
from .figure_parts import BAND, FAINT, FONT, INK, LETTER, WIDE, Row, Spec, described, fill
from .words import direction_text

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")
COLOURS = tuple(f"var(--series-{i})" for i in range(1, 11))  # the baseline is drawn in ink
PLAIN = "format(datum.value, ',~r')"  # a number as people write it; Vega's own choice would be 1e+2
SPREAD = 50.0  # a response that spans more than this factor is drawn on a log scale
LONGEST = 26  # letters of a name at the right edge
HEIGHT = {WIDE: 300, "narrow": 260}


def draw(curves: Curves, baseline: str, shape: str) -> Spec:
    """The figure with its data. O(points)."""
    metric = metric_named(curves.figure.metric)
    unit = readable(curves, metric)
    treatments = list(dict.fromkeys(p.treatment for p in curves.points))
    numeric = curves.numeric
    low, high, log_y = _domain(curves, unit)
    rows = [_row(p, unit, numeric, low, high) for p in curves.points]
    names = max((len(t) for t in treatments), default=0)
    room = round(min(names, LONGEST) * LETTER) + 30
    width = (860 if shape == WIDE else 330) - room - 64
    labels = _labels(rows, treatments, low, high, log_y, HEIGHT[shape])
    layer = [
        *_oversubscribed(curves, numeric, shape),
        *_marks(curves, metric, unit, treatments, baseline, numeric, low, high, log_y, shape),
    ]
    layer += _names(labels, treatments, baseline)
    return fill(described(width=width, height=HEIGHT[shape], padding=4, layer=layer), rows)


def _row(point: CurvePoint, unit: Readable, numeric: bool, low: float, high: float) -> Row:
    mean = point.mean
    bounded = math.isfinite(mean.high) and mean.low > 0
    ends = (mean.low / unit.size, mean.high / unit.size) if bounded else (mean.ratio / unit.size,) * 2
    return {
        "treatment": point.treatment,
        "x": float(point.level) if numeric else point.level,
        "y": mean.ratio / unit.size,
        "low": max(ends[0], low),
        "high": min(ends[1], high),
    }


def _domain(curves: Curves, unit: Readable) -> tuple[float, float, bool]:
    """(least, greatest, logarithmic) of the y axis; a linear one of values begins at nought."""
    values = [p.mean.ratio / unit.size for p in curves.points]
    tops = [p.mean.high / unit.size for p in curves.points if math.isfinite(p.mean.high)]
    least, most = min(values, default=0.0), max(values, default=1.0)
    top = min(max([most, *tops]), 1.5 * most) if most > 0 else 1.0  # one wild interval must not flatten all curves
    if least > 0 and (curves.figure.log_y or most / least > SPREAD):
        return least / 1.25, top * 1.15, True
    return 0.0, top * 1.05 or 1.0, False


def _x(curves: Curves, numeric: bool, shape: str) -> Spec:
    figure = curves.figure
    title = figure.x_title or figure.over.replace("-", " ").replace("_", " ")
    if not numeric:
        return {"field": "x", "type": "ordinal", "sort": list(curves.levels), "title": title, "axis": {"labelAngle": 0}}
    levels = [float(level) for level in curves.levels]
    scale: Spec = {"type": "log", "base": 2} if figure.log_x and min(levels) > 0 else {}
    span = max(levels) - min(levels) or 1.0
    domain = [min(levels), max(levels)] if scale else [min(levels) - 0.02 * span, max(levels) + 0.02 * span]
    return {
        "field": "x",
        "type": "quantitative",
        "title": title if shape == WIDE or len(title) < 34 else title.split(" (")[0],
        "scale": {**scale, "domain": domain, "nice": False, "zero": False},
        "axis": {"values": levels, "labelExpr": PLAIN, "grid": False, "labelOverlap": "greedy"},
    }


def _y(title: list[str], low: float, high: float, log_y: bool) -> Spec:
    scale = {"domain": [low, high], "nice": False, "zero": False} | ({"type": "log"} if log_y else {})
    axis: Spec = {"labelExpr": PLAIN, "tickCount": 6}
    if log_y:
        axis["values"] = _ticks(low, high)
    return {"field": "y", "type": "quantitative", "title": title, "scale": scale, "axis": axis}


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten within the domain, and 2 and 5 times these where few of them are."""
    steps = (1,) if high / low > 1e3 else (1, 2, 5)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [s * 10.0**e for e in exponents for s in steps if low <= s * 10.0**e <= high]


def _marks(
    curves: Curves,
    metric: Metric,
    unit: Readable,
    treatments: Sequence[str],
    baseline: str,
    numeric: bool,
    low: float,
    high: float,
    log_y: bool,
    shape: str,
) -> list[Spec]:
    x, y = _x(curves, numeric, shape), _y(axis_title(curves, metric, unit), low, high, log_y)
    colour, shapes = _looks(treatments, baseline)
    wider = {"condition": {"test": f"datum.treatment === {baseline!r}", "value": 2.6}, "value": 1.6}
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
    colours = [_colour(t, treatments, baseline) for t in treatments]
    shapes = [SHAPES[i % len(SHAPES)] for i in range(len(treatments))]
    return (
        {**which, "scale": {"domain": list(treatments), "range": colours}},
        {**which, "scale": {"domain": list(treatments), "range": shapes}},
    )


def _colour(treatment: str, treatments: Sequence[str], baseline: str) -> str:
    if treatment == baseline:
        return INK
    others = [t for t in treatments if t != baseline]
    return COLOURS[others.index(treatment) % len(COLOURS)]


def _oversubscribed(curves: Curves, numeric: bool, shape: str) -> list[Spec]:
    """A band over the levels at which more threads ran than there are processors, if the figure is over threads."""
    inside = [float(p.level) for p in curves.points if numeric and not p.oversubscribed]
    beyond = [float(p.level) for p in curves.points if numeric and p.oversubscribed]
    if not beyond or not inside or min(beyond) <= max(inside) or curves.figure.over != "threads":
        return []
    start = math.sqrt(max(inside) * min(beyond)) if curves.figure.log_x else (max(inside) + min(beyond)) / 2
    data = {"values": [{"start": start, "end": max(beyond), "text": "more threads than processors"}]}
    x = _x(curves, numeric, shape)
    return [
        {
            "data": data,
            "mark": {"type": "rect", "color": BAND, "opacity": 0.7},
            "encoding": {"x": {**x, "field": "start"}, "x2": {"field": "end"}},
        },
        {
            "data": data,
            "mark": {
                "type": "text",
                "align": "left",
                "baseline": "top",
                "dx": 6,
                "dy": 4,
                "color": FAINT,
                "fontSize": FONT,
            },
            "encoding": {"x": {**x, "field": "start"}, "y": {"value": 0}, "text": {"field": "text"}},
        },
    ]


def _labels(
    rows: Sequence[Row], treatments: Sequence[str], low: float, high: float, log_y: bool, height: int
) -> list[Row]:
    """Names at the right edge, as near to the ends of their curves as they fit below each other."""

    def place(value: float) -> float:  # pixels from the bottom
        if log_y:
            return height * math.log(max(value, low) / low) / math.log(high / low)
        return height * (min(value, high) - low) / (high - low)

    ends = {row["treatment"]: row["y"] for row in rows}  # rows come in the order of levels: the last one stays
    wanted = sorted((place(ends[t]), t) for t in treatments)
    gap, found = FONT + 2.0, list[float]()
    for at, _ in wanted:
        found.append(max(at, found[-1] + gap) if found else max(at, 0.0))
    over = (found[-1] - height) if found else 0.0
    for i in range(len(found) - 1, -1, -1):  # push down again what was pushed beyond the top
        limit = height if i == len(found) - 1 else found[i + 1] - gap
        found[i] = min(found[i], limit) if over > 0 else found[i]
    return [
        {"name": name[:LONGEST], "treatment": name, "py": height - at}
        for at, (_, name) in zip(found, wanted, strict=True)
    ]


def _names(labels: Sequence[Row], treatments: Sequence[str], baseline: str) -> list[Spec]:
    data, colour, shapes = {"values": list(labels)}, *_looks(treatments, baseline)
    place = {"x": {"value": "width"}, "y": {"field": "py", "type": "quantitative", "scale": None}, "color": colour}
    return [
        {
            "data": data,
            "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1, "xOffset": 12},
            "encoding": {**place, "shape": shapes},
        },
        {
            "data": data,
            "mark": {
                "type": "text",
                "align": "left",
                "baseline": "middle",
                "dx": 21,
                "fontSize": FONT,
                "fontWeight": 600,
            },
            "encoding": {**place, "text": {"field": "name"}},
        },
    ]


def axis_title(curves: Curves, metric: Metric, unit: Readable) -> list[str]:
    """Two lines: `allocation time`, `(ms; lower is better)`."""
    figure = curves.figure
    title = figure.y_title or (f"{metric.title}, ratio to the baseline" if figure.relative else metric.title)
    inside = "; ".join(part for part in (unit.name, direction_text(metric)) if part)
    return [title, f"({inside})"]


def levels_shown(curves: Curves) -> list[str]:
    """Levels as people read them: `1,024`."""
    return [f"{float(level):,.6g}" if is_number(level) else level for level in curves.levels]

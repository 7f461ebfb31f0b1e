# SPDX-License-Identifier: Apache-2.0
"""Time against memory: one point per allocator, bars for what is not known, the Pareto front as a line."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...model.analysis import ParetoPoint
from .parts import FAINT, FONT, FRONT, INK, LETTER, NARROW, PAPER, WIDE, Row, Spec, described
from .label_layout import place_labels
from ..words import interval_text

_SIZE = {WIDE: (800, 430), NARROW: (250, 330)}


def scatter_rows(points: Sequence[ParetoPoint], baseline: str, shape: str) -> tuple[list[Row], tuple[Spec, Spec]]:
    """Rows with placed labels, and the two scales (time, memory), for a figure of that shape. O(points^2)."""
    shown = [p for p in points if _positive(p.time.ratio) and _positive(p.memory.ratio)]
    size = _SIZE[shape]
    across = _domain([p.time.ratio for p in shown])
    upward = _domain([p.memory.ratio for p in shown])

    def pixels(x: float, y: float) -> tuple[float, float]:
        return _share(x, across) * size[0], (1 - _share(y, upward)) * size[1]

    rows: list[Row] = []
    places = [pixels(p.time.ratio, p.memory.ratio) for p in shown]
    boxes = [(len(p.treatment) * LETTER + 4, FONT + 3.0) for p in shown]
    for point, place, box, centre in zip(shown, places, boxes, place_labels(places, boxes, size), strict=True):
        row: Row = {
            "treatment": point.treatment,
            "x": point.time.ratio, "xl": _clip(point.time.low, across), "xh": _clip(point.time.high, across),
            "y": point.memory.ratio, "yl": _clip(point.memory.low, upward), "yh": _clip(point.memory.high, upward),
            "kind": "baseline" if point.treatment == baseline else "front" if point.on_front else "other",
            "front": point.on_front,
            "lx": _value(centre[0] / size[0], across), "ly": _value(1 - centre[1] / size[1], upward),
            "time": interval_text(point.time), "memory": interval_text(point.memory),
        }  # fmt: skip
        far = abs(centre[1] - place[1]) > FONT or abs(centre[0] - place[0]) > box[0] / 2 + 14
        rows.append(row | ({"ex": row["lx"], "ey": row["ly"]} if far else {"ex": row["x"], "ey": row["y"]}))
    return rows, (_log(across), _log(upward))


def scatter(scales: tuple[Spec, Spec], shape: str) -> Spec:
    """Time ratio across, memory ratio upward, both on a log scale; every point named beside itself."""
    size = _SIZE[shape]
    x = {"field": "x", "type": "quantitative", "scale": scales[0], "title": "← less time · time ratio · more time →",
         "axis": {"format": "~r", "tickCount": 6}}  # fmt: skip
    y = {"field": "y", "type": "quantitative", "scale": scales[1], "title": "← less memory · memory ratio · more →",
         "axis": {"format": "~r", "tickCount": 6}}  # fmt: skip
    tooltip = [{"field": "treatment", "title": "allocator"}, {"field": "time"}, {"field": "memory"}]
    kinds = ["baseline", "front", "other"]
    scale = {"domain": kinds, "range": [INK, FRONT, FAINT]}
    colour = {"field": "kind", "type": "nominal", "legend": None, "scale": scale}
    fade = {"condition": {"test": "datum.kind == 'other'", "value": 0.35}, "value": 0.75}
    one, dotted = {"datum": 1, "type": "quantitative"}, {"type": "rule", "color": FAINT, "strokeDash": [2, 3]}
    return described(
        width=size[0],
        height=size[1],
        layer=[
            {"data": {"values": [{}]}, "mark": dotted, "encoding": {"x": one}},
            {"data": {"values": [{}]}, "mark": dotted, "encoding": {"y": one}},
            {"transform": [{"filter": "datum.front"}],
             "mark": {"type": "line", "interpolate": "step-after", "color": FRONT, "strokeDash": [6, 4]},
             "encoding": {"x": x, "y": y, "order": {"field": "x"}}},
            {"mark": {"type": "rule", "clip": True},
             "encoding": {"x": {**x, "field": "xl"}, "x2": {"field": "xh"}, "y": y, "color": colour, "opacity": fade}},
            {"mark": {"type": "rule", "clip": True},
             "encoding": {"y": {**y, "field": "yl"}, "y2": {"field": "yh"}, "x": x, "color": colour, "opacity": fade}},
            {"mark": {"type": "rule", "color": INK, "strokeWidth": 0.7, "opacity": 0.5},
             "encoding": {"x": x, "y": y, "x2": {"field": "ex"}, "y2": {"field": "ey"}}},
            {"mark": {"type": "point", "filled": True, "size": 110, "opacity": 1},
             "encoding": {"x": x, "y": y, "color": colour, "tooltip": tooltip,
                          "shape": {"field": "kind", "type": "nominal", "legend": None,
                                    "scale": {"domain": kinds, "range": ["diamond", "circle", "square"]}}}},
            # The halo keeps a name readable where bars pass behind it.
            {"mark": {"type": "text", "stroke": PAPER, "strokeWidth": 4, "strokeJoin": "round", "color": PAPER},
             "encoding": {"x": {**x, "field": "lx"}, "y": {**y, "field": "ly"}, "text": {"field": "treatment"}}},
            {"mark": {"type": "text"},
             "encoding": {"x": {**x, "field": "lx"}, "y": {**y, "field": "ly"}, "text": {"field": "treatment"},
                          "tooltip": tooltip}},
        ],
    )  # fmt: skip


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _domain(values: Sequence[float]) -> tuple[float, float]:
    """Where a log axis begins and ends: all points and 1 inside, with room for names; bars may be cut off."""
    low, high = min([1.0, *values]), max([1.0, *values])
    room = max(0.16 * math.log(high / low), 0.03)
    return low / math.exp(room), high * math.exp(room)


def _log(domain: tuple[float, float]) -> Spec:
    return {"type": "log", "domain": list(domain), "nice": False}


def _share(value: float, domain: tuple[float, float]) -> float:
    return math.log(value / domain[0]) / math.log(domain[1] / domain[0])


def _value(share: float, domain: tuple[float, float]) -> float:
    return domain[0] * (domain[1] / domain[0]) ** share


def _clip(value: float, domain: tuple[float, float]) -> float:
    return min(max(value, domain[0]), domain[1]) if value == value else domain[0]

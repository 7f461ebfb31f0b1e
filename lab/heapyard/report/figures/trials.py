# SPDX-License-Identifier: Apache-2.0
"""What lies under the means: every single trial, and memory over time."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.metrics import Metric
from .parts import BAND, FAINT, HIGHLIGHT, INK, WIDE, Spec, described

KINDS = ("baseline", "A/A control", "highlighted", "other")
SHAPES = ("circle", "diamond", "triangle-up", "stroke")


def trials(programs: Sequence[str], shape: str) -> Spec:
    """Every trial in the order it ran: a trend that all share is drift.

    Rows: program, treatment, round, place, value, kind, layer, and for the tooltip label, block, at, shown.
    """
    x = {"type": "quantitative", "title": "block, in the order they ran",
         "scale": {"nice": False, "zero": False}, "axis": {"tickMinStep": 1, "format": "d", "grid": False}}  # fmt: skip
    y = {"field": "value", "type": "quantitative", "title": "@y", "scale": {"zero": False},
         "axis": {"format": ",.4~r", "tickCount": 5}}  # fmt: skip
    kind = {"field": "kind", "type": "nominal", "legend": {"columns": 4 if shape == WIDE else 2}}
    tooltip = [{"field": "label", "title": "trial"}, {"field": "program"}, {"field": "treatment", "title": "allocator"},
               {"field": "shown", "title": "value"}, {"field": "block"},
               {"field": "at", "title": "started after"}]  # fmt: skip
    return _faceted(programs, shape, height=150, layer=[
        {"transform": [{"aggregate": [], "groupby": ["program", "round"]}, {"filter": "datum.round % 2 == 1"},
                       {"calculate": "datum.round + 1", "as": "next"}],
         "mark": {"type": "rect", "color": BAND},
         "encoding": {"x": {"field": "round", **x}, "x2": {"field": "next"}}},
        {"mark": {"type": "point", "strokeWidth": 1.6},
         "encoding": {"x": {"field": "place", **x}, "y": y, "tooltip": tooltip, "order": {"field": "layer"},
                      "color": {**kind, "scale": {"domain": KINDS, "range": [INK, INK, HIGHLIGHT, FAINT]}},
                      "shape": {**kind, "scale": {"domain": KINDS, "range": SHAPES}},
                      "size": {"condition": {"test": "datum.kind == 'other'", "value": 30}, "value": 60}}},
    ])  # fmt: skip


def memory(programs: Sequence[str], shape: str, *, loaded: bool) -> Spec:
    """Resident memory over time of one trial per allocator; if `loaded`, points tell where a server's load began and ended.

    Rows: program, treatment, trial, seconds, mib, mark, kind.
    """
    x = {"field": "seconds", "type": "quantitative", "title": "seconds since the program started",
         "axis": {"grid": False, "tickCount": 4, "format": "~g"}}  # fmt: skip
    y = {"field": "mib", "type": "quantitative", "title": "resident set, MiB", "axis": {"tickCount": 5}}
    kinds = [kind for kind in KINDS if kind != "A/A control"]
    kind = {"field": "kind", "type": "nominal", "legend": {"columns": 3 if shape == WIDE else 2}}
    tooltip = [{"field": "treatment", "title": "allocator"}, {"field": "trial"}]
    width = {"condition": [{"test": "datum.kind == 'other'", "value": 1}], "value": 2.5}
    dash = {**kind, "scale": {"domain": kinds, "range": [[1, 0], [7, 3], [1, 0]]}}
    marks = [  # without a point this layer would have an axis without ends
        {"transform": [{"filter": "datum.mark"}], "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
         "encoding": {"x": x, "y": y, "tooltip": tooltip, "color": {  # no scale, which would change the legend's lines
             "condition": [{"test": f"datum.kind == '{kind}'", "value": colour}
                           for kind, colour in (("baseline", INK), ("highlighted", HIGHLIGHT))], "value": FAINT}}},
    ]  # fmt: skip
    return _faceted(programs, shape, height=170, layer=[
        {"mark": {"type": "line", "interpolate": "linear"},
         "encoding": {"x": x, "y": y, "detail": [{"field": "treatment"}, {"field": "layer"}], "tooltip": tooltip,
                      "strokeWidth": width, "strokeDash": dash,
                      "color": {**kind, "scale": {"domain": kinds, "range": [INK, HIGHLIGHT, FAINT]}}}},
        *(marks if loaded else []),
    ])  # fmt: skip


def axis_title(metric: Metric) -> str:
    unit = {"1": "", "B": ", MiB"}.get(metric.unit, f", {metric.unit}")
    return f"{metric.title}{unit}"


def _faceted(programs: Sequence[str], shape: str, *, height: int, layer: list[Spec]) -> Spec:
    columns = (2 if len(programs) > 1 else 1) if shape == WIDE else 1
    width = (860 if shape == WIDE else 318) / columns - 62
    return described(
        facet={"field": "program", "type": "nominal", "sort": list(programs)},
        columns=columns,
        spacing={"row": 28, "column": 18},
        resolve={"scale": {"y": "independent", "x": "independent"}},
        spec={"width": round(width), "height": height, "layer": layer},
    )

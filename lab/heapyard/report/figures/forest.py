# SPDX-License-Identifier: Apache-2.0
"""Intervals by program."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.metrics import Metric
from .parts import BAND, FAINT, INK, LETTER, WIDE, Spec, described
from ..words import direction_text

VERDICTS = ("better", "worse", "equivalent", "undecided", "baseline")
VERDICT_COLOURS = ("var(--better)", "var(--worse)", "var(--same)", "var(--faint)", INK)
VERDICT_SHAPES = ("triangle-left", "triangle-right", "square", "circle", "diamond")


def forest(programs: Sequence[str], order: Sequence[str], shape: str) -> Spec:
    """One panel per program: every allocator's ratio with its interval, the margin of equivalence as a band.

    Rows: program, treatment, ratio, low, high, verdict, label.
    """
    x = {"type": "quantitative", "scale": {"type": "log", "nice": False}, "title": "@x",
         "axis": {"format": "~r", "tickCount": 5}}  # fmt: skip
    y = {"field": "treatment", "type": "nominal", "sort": list(order), "title": None,
         "axis": {"grid": True, "gridDash": [1, 3], "ticks": False, "domain": False, "labelPadding": 6}}  # fmt: skip
    used = {"field": "verdict", "type": "nominal"}
    legend = {"columns": 5 if shape == WIDE else 1}
    tooltip = [{"field": "program"}, {"field": "treatment", "title": "allocator"}, {"field": "label", "title": "ratio"},
               {"field": "verdict"}]  # fmt: skip
    colour = {**used, "legend": legend, "scale": {"domain": VERDICTS, "range": VERDICT_COLOURS}}
    columns = (2 if len(programs) > 1 else 1) if shape == WIDE else 1
    names = max((len(t) for t in order), default=0) * LETTER
    panel = ((860 if shape == WIDE else 318) - names - 24) / columns - (14 if columns > 1 else 0)
    return described(
        facet={"field": "program", "type": "nominal", "sort": list(programs), "header": {"labelPadding": 4}},
        columns=columns,
        spacing={"row": 26, "column": 24},
        spec={
            "width": round(max(panel, 110)),
            "height": {"step": 18},
            "layer": [
                {"mark": {"type": "rect", "color": BAND},
                 "encoding": {"x": {"datum": "@low", **x}, "x2": {"datum": "@high"}}},
                {"mark": {"type": "rule", "color": FAINT}, "encoding": {"x": {"datum": 1, **x}}},
                {"transform": [{"filter": "datum.verdict != 'baseline'"}],
                 "mark": {"type": "rule", "strokeWidth": 2, "clip": True},
                 "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}, "y": y, "color": colour,
                              "tooltip": tooltip}},
                {"mark": {"type": "point", "filled": True, "size": 75, "opacity": 1},
                 "encoding": {"x": {"field": "ratio", **x}, "y": y, "color": colour, "tooltip": tooltip,
                              "shape": {**used, "legend": legend,
                                        "scale": {"domain": VERDICTS, "range": VERDICT_SHAPES}}}},
            ],
        },
    )  # fmt: skip


def parts(metric: Metric, margin: float) -> dict[str, object]:
    """What a metric fills in: the axis title and the ends of the band."""
    return {"x": f"{metric.title}, ratio to the baseline ({direction_text(metric)})"} | band(margin)


def band(margin: float) -> dict[str, object]:
    """Where a difference counts as none; symmetric on the log scale."""
    return {"low": 1 / (1 + margin), "high": 1 + margin}

# SPDX-License-Identifier: Apache-2.0
"""The longest single call over the size of the heap, a line per allocator, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...model.check import ReportCard
from .parts import described, fill
from ..report_card import call_growth


def write_calls(path: Path, cards: Sequence[ReportCard]) -> None:
    """An SVG of its own, in plain colours; OSError when it cannot be written."""
    import vl_convert

    path.write_text(vl_convert.vegalite_to_svg(calls(cards)))


def calls(cards: Sequence[ReportCard]) -> dict:
    rows = [
        {"allocator": card.allocator.name, "blocks": blocks, "instructions": count}
        for card in cards for blocks, count in call_growth(card).items()
    ]
    axis = {"type": "quantitative", "scale": {"type": "log", "nice": False}}
    x = {**axis, "field": "blocks", "title": "blocks in the heap", "axis": {"format": "~s"}}
    y = {**axis, "field": "instructions", "title": "instructions of the longest call · lower is better",
         "axis": {"format": "~s"}}  # fmt: skip
    name = {"field": "allocator", "type": "nominal", "sort": None, "title": None, "legend": {"columns": 5}}
    spec = described(
        width=560,
        height=340,
        layer=[{"mark": {"type": "line", "point": {"size": 60}},
                "encoding": {"x": x, "y": y, "color": name, "shape": name}}],
    )  # fmt: skip
    spec["config"] = {**spec["config"], "background": "white", "axis": {"grid": True}, "legend": {"orient": "top"}}
    return fill(spec, rows)

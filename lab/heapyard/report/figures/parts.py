# SPDX-License-Identifier: Apache-2.0
"""The report's figures as Vega-Lite: one description serves the interactive figure and the fixed one.

Colours are CSS variables, so that a figure follows the page into dark mode and onto paper. Nothing is told apart by
colour alone: shapes, line widths and words carry it too. `"@name"` stands for what depends on the chosen metric, such
as an axis title; `fill` puts it in.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Spec = dict[str, Any]
Row = dict[str, Any]

INK, PAPER, BAND, FAINT = "var(--ink)", "var(--paper)", "var(--band)", "var(--faint)"
FRONT, HIGHLIGHT = "var(--front)", "var(--highlight)"
FONT = 12  # pixels
LETTER = 0.56 * FONT  # mean width of a letter, rounded up
# A figure has two shapes: beside text on a desk, and in a hand.
WIDE, NARROW = "wide", "narrow"

_CONFIG: Spec = {
    "aria": False,  # the page names its figures; a name for every point would bury them
    "font": "system-ui, sans-serif",
    "background": None,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK, "titleColor": INK, "tickColor": FAINT, "domainColor": FAINT, "gridColor": "var(--grid)",
        "labelFontSize": FONT, "titleFontSize": FONT, "titleFontWeight": 600, "labelLimit": 220,
        "labelOverlap": "greedy",
    },
    "header": {"labelColor": INK, "labelFontSize": 13, "labelFontWeight": 600, "title": None, "labelAnchor": "start"},
    "legend": {
        "labelColor": INK, "labelFontSize": FONT, "title": None, "orient": "top", "symbolSize": 90, "columns": 3,
        "labelLimit": 240, "symbolStrokeWidth": 2,
    },
    "text": {"fontSize": FONT, "color": INK},
}  # fmt: skip


def fill(spec: Spec, rows: Sequence[Row], **parts: object) -> Spec:
    """The description with its data and what its `"@name"`s stand for; what the page's script does in the browser."""
    text = json.dumps(spec)
    for name, part in parts.items():
        text = text.replace(json.dumps(f"@{name}"), json.dumps(part))
    return {**json.loads(text), "datasets": {"rows": list(rows)}}


def described(**parts: Any) -> Spec:
    schema = "https://vega.github.io/schema/vega-lite/v6.json"  # a name: nothing is fetched
    return {"$schema": schema, "config": _CONFIG, "data": {"name": "rows"}, **parts}

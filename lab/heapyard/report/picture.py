# SPDX-License-Identifier: Apache-2.0
"""The terminal answer as a picture, for a page that shows what the tool prints."""

from __future__ import annotations

import io

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from ..model.analysis import Analysis
from ..model.preference import BY_TIME, Preference
from ..model.record import Record
from .terminal import print_answer

WIDTH = 100  # columns: what fits a front page


def terminal_svg(
    analysis: Analysis, record: Record, *, command: str = "heapyard compare", preference: Preference = BY_TIME
) -> str:
    """SVG of the answer as a terminal with colours shows it; the same record gives the same bytes."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    print_answer(console, analysis, record, preference=preference)
    return console.export_svg(title=command, theme=SVG_EXPORT_THEME, unique_id="heapyard")

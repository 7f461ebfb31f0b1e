# SPDX-License-Identifier: Apache-2.0
"""The terminal answer as a picture, for a page that shows what the tool prints."""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from ..model.analysis import Analysis
from ..model.capacity import Capacities
from ..model.preference import BY_TIME, Preference
from ..model.record import Record
from .capacity_table import print_capacities
from .terminal import print_answer

WIDTH = 100  # columns: what fits a front page
_TOLD = ("--quiet", "--no-html", "--json", "--wait")


def terminal_svg(analysis: Analysis, record: Record, *, preference: Preference = BY_TIME) -> str:
    """SVG of the answer as a terminal with colours shows it; the same record gives the same bytes."""
    return _picture(lambda console: print_answer(console, analysis, record, preference=preference), record)


def capacities_svg(found: Capacities, record: Record) -> str:
    """The same of a search for capacities."""
    return _picture(lambda console: print_capacities(console, found, record), record)


def _picture(draw: Callable[[Console], None], record: Record) -> str:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    draw(console)
    return console.export_svg(title=_title(record), theme=SVG_EXPORT_THEME, unique_id="heapyard")


def _title(record: Record) -> str:
    """The command line that was given, as far as a title has room, without what changes only how it is told."""
    argv = record.experiment.argv
    own = argv.index("--") if "--" in argv else len(argv)  # the user's command stays as it is
    command = shlex.join([*(word for word in argv[:own] if word not in _TOLD), *argv[own:]])
    room = WIDTH - 20  # beside the buttons of the window
    return command if len(command) <= room else f"{command[:room]} ..."

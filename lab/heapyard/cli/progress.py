# SPDX-License-Identifier: Apache-2.0
"""Progress on standard error: a display on a terminal, a line now and then elsewhere, nothing with --quiet.

Both draw when a trial begins and when it ends, never meanwhile: a display that refreshed itself would disturb what is
measured.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from ..execute.loop.watcher import Away, Moment, Watcher
from ..model.experiment import Experiment, TrialOutcome
from ..model.journal import ABANDONED, BUDGET, DROPPED, FLEET, INTERRUPTED, PLANNED, REPEATED, SETTLED, UNCOUNTED
from ..model.units import counted, format_duration
from .consoles import remark, remarks
from .progress_width import LiveWidth

if TYPE_CHECKING:
    from types import TracebackType

LOG_INTERVAL = 10.0  # seconds between two lines of the plain log

_NAMED = 4  # nodes; more are counted
_TOLD = (ABANDONED, BUDGET, DROPPED, FLEET, PLANNED, REPEATED, SETTLED, UNCOUNTED)


def _shown(kind: str, text: str) -> str:
    """An event as a line; who is settled where is for `heapyard show --events`."""
    return f"{kind}: {text.partition(':')[0] if kind == SETTLED else text}"


class Progress(Watcher):
    """What both displays know; a context manager. This one shows nothing."""

    def __init__(self, experiment: Experiment):
        self._width = LiveWidth(experiment.settings.confidence, experiment.settings.time_metric)
        self._began = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def trial_ended(self, moment: Moment, outcome: TrialOutcome) -> None:
        self._width.add(moment.block, moment.position, outcome)

    def _status(self, moment: Moment) -> str:
        """`block 12/36, 3 min 10 s left, g++ within ±1.4 %`."""
        parts = [f"block {min(moment.blocks_done + 1, moment.blocks_planned)}/{moment.blocks_planned}"]
        if moment.at:  # a search does not know how many blocks it takes
            parts = [f"block {moment.blocks_done + 1}"]
        if moment.block.stage == "warmup":
            parts = ["warm-up"]
        parts.append(f"{format_duration(time.monotonic() - self._began)} gone")
        if moment.remaining and math.isfinite(moment.remaining):
            parts.append(f"about {format_duration(moment.remaining)} left")
        width = None if moment.at else self._width.of(moment.block.workload)
        if width is not None:
            parts.append(f"{moment.block.workload} within ±{100 * width:.2g} %")
        return ", ".join(parts)


    def _away(self, away: Away) -> str:
        """`block 12/36, 3 min gone, about 5 min left; 3 blocks out, on n1, n2, n3`."""
        parts = [f"block {min(away.blocks_done + 1, away.blocks_planned)}/{away.blocks_planned}"]
        parts.append(f"{format_duration(time.monotonic() - self._began)} gone")
        if away.remaining and math.isfinite(away.remaining):
            parts.append(f"about {format_duration(away.remaining)} left")
        some = ", ".join(away.nodes[:_NAMED]) + (f" and {len(away.nodes) - _NAMED} more" if len(away.nodes) > _NAMED else "")
        on = f", on {some}" if some else ", queued"
        return f"{', '.join(parts)}; {counted(away.out, 'block')} out{on}"


class PlainProgress(Progress):
    """A line about every ten seconds, and one for every event worth one."""

    _last = -math.inf

    def trial_begins(self, moment: Moment) -> None:
        if time.monotonic() - self._last >= LOG_INTERVAL:
            remark(f"{self._status(moment)}; now {moment.block.workload} under {moment.treatment}{moment.at}")
            self._last = time.monotonic()

    def waits(self, away: Away) -> None:
        if time.monotonic() - self._last >= LOG_INTERVAL:
            remark(self._away(away))
            self._last = time.monotonic()

    def event(self, kind: str, text: str) -> None:
        if kind in _TOLD:
            remark(_shown(kind, text))


class TerminalProgress(Progress):
    """A bar with the launch in hand beneath it."""

    def __init__(self, experiment: Experiment):
        super().__init__(experiment)
        from rich.live import Live

        self._console = remarks()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> Progress:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def trial_begins(self, moment: Moment) -> None:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        total = moment.spent + moment.remaining if math.isfinite(moment.remaining) else 0.0
        share = moment.spent / total if total else 0.0
        now = f"trial {moment.trials_done + 1}: {moment.block.workload} under {moment.treatment}{moment.at}"
        rows = Table.grid()
        rows.add_column(no_wrap=True, overflow="ellipsis")
        rows.add_row(ProgressBar(total=1.0, completed=min(share, 1.0), width=min(self._console.width, 60)))
        rows.add_row(Text(self._status(moment)))
        rows.add_row(Text(now, style="dim"))
        self._live.update(rows, refresh=True)

    def waits(self, away: Away) -> None:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        rows = Table.grid()
        rows.add_column(no_wrap=True, overflow="ellipsis")
        share = away.blocks_done / away.blocks_planned if away.blocks_planned else 0.0
        rows.add_row(ProgressBar(total=1.0, completed=share, width=min(self._console.width, 60)))
        place, _, out = self._away(away).partition("; ")
        rows.add_row(Text(place))
        rows.add_row(Text(out, style="dim"))
        self._live.update(rows, refresh=True)

    def event(self, kind: str, text: str) -> None:
        from rich.text import Text

        if kind in _TOLD:
            style = "yellow" if kind in (ABANDONED, DROPPED) else "dim"
            self._console.print(Text(_shown(kind, text), style=style))
        elif kind == INTERRUPTED:
            self._console.print(Text("stopping", style="dim"))


def progress_for(experiment: Experiment, *, quiet: bool) -> Progress:
    """The display that fits standard error."""
    if quiet:
        return Progress(experiment)
    console = remarks()
    return (
        TerminalProgress(experiment)
        if console.is_terminal and not console.is_dumb_terminal
        else PlainProgress(experiment)
    )

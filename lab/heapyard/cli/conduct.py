# SPDX-License-Identifier: Apache-2.0
"""Carrying out an experiment from the command line: locks, progress, the answer, the way back after an interruption."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import store
from ..api.fleet.usage import LOGIN, check_fleet, on_login_node
from ..api.measuring import measure, opened
from ..execute.loop.signals import stop_on_signals
from ..model.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, HeapyardError, UsageError
from ..model.experiment import Experiment
from ..model.fleet import Fleet
from ..model.preference import BY_TIME, Preference
from ..model.units import counted, format_duration
from .answer import show_answer
from .capacity_answer import is_search, show_capacities
from .consoles import remark
from .progress import progress_for

if TYPE_CHECKING:
    from ..model.memory_parts import MemoryParts
    from ..store import StoredJournal


@dataclass(frozen=True, slots=True)
class Manner:
    """How an experiment is carried out and shown, apart from what is measured."""

    output: Path | None = None  # where experiments are stored, if not the usual folder
    json: bool = False
    quiet: bool = False
    html: bool = True
    wait: bool = False
    preference: Preference = BY_TIME
    explain: bool = False  # where each allocator's memory lies, by a traced launch more


def conduct(experiment: Experiment, manner: Manner) -> int:
    """Store and carry out a new experiment, then print its answer; the exit code."""
    return _carry_out(lambda: store.create(experiment, manner.output), experiment, manner, experiment.settings.fleet)


def go_on(folder: Path, manner: Manner, change: Callable[[Experiment], Experiment] = lambda e: e) -> int:
    """Go on with a stored experiment, after `change` of its settings; the exit code."""
    fleet = change(store.load_record(folder).experiment).settings.fleet
    return _carry_out(lambda: store.reopen(folder), None, manner, fleet, change)


def _carry_out(
    journal: Callable[[], StoredJournal],
    new: Experiment | None,
    manner: Manner,
    fleet: Fleet,
    change: Callable[[Experiment], Experiment] = lambda e: e,
) -> int:
    def waiting(who: str) -> None:
        remark(f"waiting for another experiment to end ({who})")

    title = new.title if new else "a resumed experiment"
    if manner.explain and fleet.engine:
        raise UsageError("--explain-memory launches programs on this machine, and --fleet on others", remedy="Leave one out.")
    if fleet.engine:
        check_fleet(fleet, new)
    elif not manner.quiet and on_login_node():
        remark(LOGIN)
    with opened(journal, title, fleet=fleet, wait=manner.wait, waiting=waiting, change=change) as stored:
        status = run_trials(stored.journal, stored.experiment, manner, resumed=new is None)
        if manner.explain and status == "finished":
            _explain(stored.journal, stored.experiment, manner)
        stored.release()
        return _conclude(stored.journal, status, manner)


def run_trials(journal: StoredJournal, experiment: Experiment, manner: Manner, *, resumed: bool) -> str:
    """Run the trials and show how far they are; the status the experiment ends with."""
    if not manner.quiet:
        remark(_announcement(journal.id, experiment))
    with stop_on_signals() as stop, progress_for(experiment, quiet=manner.quiet) as progress:
        try:
            return measure(journal, experiment, resumed=resumed, watcher=progress, stop=stop)
        except KeyboardInterrupt:
            remark(f"left at once; to go on: heapyard resume {journal.id}")
            raise


def _explain(journal: StoredJournal, experiment: Experiment, manner: Manner) -> None:
    """Find out where memory lies, and keep what was found by an interruption."""
    from ..api.memory_parts import memory_parts

    shown = sys.stderr.isatty() and not manner.quiet
    began = time.monotonic()

    def watch(done: int, launches: int, name: str) -> None:
        if not shown:
            return
        left = (time.monotonic() - began) / done * (launches - done) if done else None
        eta = f", {format_duration(left)} left" if left is not None else ""
        text = f"heapyard: where memory lies: {done} of {launches}{eta}; {name}" if name else ""
        print(f"\r\033[K{text[:100]}", end="", file=sys.stderr, flush=True)

    found: list[MemoryParts] = []
    try:
        with stop_on_signals() as stop:
            for row in memory_parts(experiment, stop, watch, remark):
                found.append(row)
                store.write_memory_parts(journal.folder, found)
    except HeapyardError as error:  # the trials are there, and their answer is told
        remark(f"where memory lies is not known: {error}")


def _conclude(journal: StoredJournal, status: str, manner: Manner) -> int:
    """Show what was found, and how to go on."""
    from ..report.verdict import headline
    from ..stats.analyse import analyse

    record = store.load_record(journal.folder)
    interrupted = status == "interrupted"
    if record.observations.rows and is_search(record):
        journal.set_verdict(show_capacities(record, json=manner.json, html=manner.html, quiet=manner.quiet))
    elif record.observations.rows:
        analysis = analyse(record.observations)
        journal.set_verdict(headline(analysis, manner.preference))
        show_answer(
            record, analysis, json=manner.json, html=manner.html, quiet=manner.quiet, preference=manner.preference
        )
    else:
        remark("interrupted before a block was complete" if interrupted else "no block was completed")
    if interrupted:
        remark(f"interrupted; to go on: heapyard resume {record.id}")
        return EXIT_INTERRUPTED
    return EXIT_OK if record.observations.rows else EXIT_FAILED


def _announcement(name: str, experiment: Experiment) -> str:
    settings = experiment.settings
    treatments = [t for t in experiment.treatments if t.role == "treatment"]
    under = counted(len(treatments), "treatment" if any(t.levels or ":" in t.label for t in treatments) else "allocator")
    if settings.blocks is not None:
        extent = f"{settings.blocks} blocks each"
    elif settings.budget is not None:
        extent = f"at most {format_duration(settings.budget)}"
    else:
        extent = f"as many blocks as intervals of ±{100 * settings.precision:.3g} % take"
    control = " and an A/A control" if len(treatments) < len(experiment.treatments) else ""
    return f"experiment {name}: {counted(len(experiment.programs), 'program')} under {under}{control}, {extent}"

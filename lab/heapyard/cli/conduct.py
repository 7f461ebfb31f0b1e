# SPDX-License-Identifier: Apache-2.0
"""Carrying out an experiment from the command line: locks, progress, the answer, the way back after an interruption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import store
from ..execute.experiment import Launch, carry_out
from ..execute.huge_pages import level_of, require
from ..execute.loop_signals import stop_on_signals
from ..model.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, HeapyardError
from ..model.experiment import Experiment
from ..model.preference import BY_TIME, Preference
from ..model.units import counted, format_duration
from .answer import show_answer
from .consoles import remark
from .progress import progress_for

if TYPE_CHECKING:
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


def conduct(experiment: Experiment, manner: Manner) -> int:
    """Store and carry out a new experiment, then print its answer; the exit code."""
    return _carry_out(lambda: store.create(experiment, manner.output), experiment, manner)


def go_on(folder: Path, manner: Manner, change: Callable[[Experiment], Experiment] = lambda e: e) -> int:
    """Go on with a stored experiment, after `change` of its settings; the exit code."""
    return _carry_out(lambda: store.reopen(folder), None, manner, change)


def _carry_out(
    opened: Callable[[], StoredJournal],
    new: Experiment | None,
    manner: Manner,
    change: Callable[[Experiment], Experiment] = lambda e: e,
) -> int:
    lock = store.MachineLock()
    title = new.title if new else "a resumed experiment"
    lock.acquire(title, wait=manner.wait, waiting=lambda who: remark(f"waiting for another experiment to end ({who})"))
    try:
        with opened() as journal:
            experiment = change(journal.experiment)
            require({level_of(t) for t in experiment.treatments}, change_system=experiment.settings.change_system)
            if experiment != journal.experiment:
                journal.set_settings(experiment.settings)
            status = _measure(journal, experiment, manner, resumed=new is None)
            lock.release()
            return _conclude(journal, status, manner)
    finally:
        lock.release()


def _measure(journal: StoredJournal, experiment: Experiment, manner: Manner, *, resumed: bool) -> str:
    """Run the trials; the status the experiment ends with. What was measured is safe whatever is raised."""
    from ..execute.environment import snapshot
    from ..execute.trial import run_trial

    launch: Launch = run_trial
    if not manner.quiet:
        remark(_announcement(journal.id, experiment))
    status = "failed"
    with stop_on_signals() as stop:
        try:
            journal.set_status("running")
            journal.snapshot("resumed" if resumed else "start", snapshot())
            with progress_for(experiment, quiet=manner.quiet) as progress:
                status = carry_out(experiment, journal, launch, watcher=progress, stop=stop)
            journal.snapshot("end", snapshot())
        except KeyboardInterrupt:
            status = "interrupted"
            remark(f"left at once; to go on: heapyard resume {journal.id}")
            raise
        except HeapyardError as error:
            if error.remedy is None:
                error.remedy = f"heapyard show {journal.id} --trials tells more."
            raise
        finally:
            try:
                journal.set_status(status)
            except HeapyardError:
                pass  # the disk is full: the error that is on its way says so
    return status


def _conclude(journal: StoredJournal, status: str, manner: Manner) -> int:
    """Show what was found, and how to go on."""
    from ..report.verdict import headline
    from ..stats.analyse import analyse

    record = store.load_record(journal.folder)
    interrupted = status == "interrupted"
    if record.observations.rows:
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
    under = counted(len(treatments), "treatment" if any(t.levels for t in treatments) else "allocator")
    if settings.blocks is not None:
        extent = f"{settings.blocks} blocks each"
    elif settings.budget is not None:
        extent = f"at most {format_duration(settings.budget)}"
    else:
        extent = f"as many blocks as intervals of ±{100 * settings.precision:.3g} % take"
    return (
        f"experiment {name}: {counted(len(experiment.programs), 'program')} under {under} and an A/A control, {extent}"
    )

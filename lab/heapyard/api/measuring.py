# SPDX-License-Identifier: Apache-2.0
"""Carrying out a stored experiment on this machine: the machine's lock, the state of the machine, the trials."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import store
from ..execute import capacity
from ..execute.experiment import Launch, carry_out
from ..execute.huge_pages import level_of, require
from ..execute.loop.watcher import Watcher
from ..model.errors import HeapyardError
from ..model.experiment import Experiment
from ..model.fleet import Fleet
from .fleet.usage import dispatch

if TYPE_CHECKING:
    from ..store import StoredJournal


@dataclass(frozen=True, slots=True)
class Opened:
    """A journal under the machine's lock. `release` gives the lock up early, once the trials are over."""

    journal: StoredJournal
    experiment: Experiment
    release: Callable[[], None]


@contextmanager
def opened(
    journal: Callable[[], StoredJournal],
    title: str,
    *,
    fleet: Fleet = Fleet(),
    wait: bool = False,
    waiting: Callable[[str], None] = lambda who: None,
    change: Callable[[Experiment], Experiment] = lambda e: e,
) -> Iterator[Opened]:
    """Take the machine's lock, then open the journal; `change` alters the settings of an experiment that goes on.

    HeapyardError when another experiment runs, unless `wait`; `waiting` is then told which. With a `fleet` nothing is
    measured by this process: its agents lock the machines that they measure on.
    """
    lock = store.MachineLock()
    if not fleet.engine:
        lock.acquire(title, wait=wait, waiting=waiting)
    try:
        with journal() as opened_journal:
            experiment = change(opened_journal.experiment)
            if not fleet.engine:
                require({level_of(t) for t in experiment.treatments}, change_system=experiment.settings.change_system)
            if experiment != opened_journal.experiment:
                opened_journal.set_settings(experiment.settings)
            yield Opened(opened_journal, experiment, lock.release)
    finally:
        lock.release()


def measure(
    journal: StoredJournal, experiment: Experiment, *, resumed: bool, watcher: Watcher | None, stop: threading.Event | None
) -> str:
    """Run the trials; `finished` or `interrupted`. What was measured is safe whatever is raised."""
    from ..execute.environment import snapshot
    from ..execute.host_memory import readying
    from ..execute.scattered_memory import move_together
    from ..execute.trial import run_trial

    launch: Launch = run_trial
    status, away = "failed", experiment.settings.fleet.engine != ""
    try:
        journal.set_status("running")
        if not away:
            move_together()
        journal.snapshot("resumed" if resumed else "start", snapshot())
        if away:
            stop = stop or threading.Event()
            status = carry_out(
                experiment, journal, launch, watcher=watcher, stop=stop, blocks=dispatch(experiment, journal, stop)
            )
        else:
            loop = capacity.search if experiment.settings.limits else carry_out
            status = loop(experiment, journal, launch, watcher=watcher, stop=stop, make_ready=readying())
        journal.snapshot("end", snapshot())
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    except HeapyardError as error:
        if error.remedy is None:
            error.remedy = f"heapyard show {journal.id} --trials tells more, and --trial 1 all that the program wrote."
        raise
    finally:
        try:
            journal.set_status(status)
        except HeapyardError:
            pass  # the disk is full: the error that is on its way says so
    return status

# SPDX-License-Identifier: Apache-2.0
"""A fleet of make-believe for tests: the real agents, in this process, on nodes that exist by name, with make-believe launches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from yard import FakeLaunch, experiment

from heapyard.execute.experiment import Ending, carry_out
from heapyard.api.fleet.agent import carry_out_block, work
from heapyard.api.fleet.dispatch import Dispatch
from heapyard.api.fleet.engine import Job
from heapyard.api.fleet.room import Room, room_of
from heapyard.execute.loop.watcher import Watcher
from heapyard.model.errors import HeapyardError
from heapyard.model.experiment import Experiment
from heapyard.model.fleet import Fleet
from heapyard.store import create, load_record, reopen
from heapyard.store.journal import StoredJournal


class Nodes:
    """An engine whose jobs run when they are submitted, each on the next node.

    `mishap` is called with the number of the job and the block's folder in place of the agent, if it wants to: it returns True
    when it has dealt with the job.
    """

    stays, ask = True, 0.0

    def __init__(self, monkeypatch: pytest.MonkeyPatch, launch: FakeLaunch, names: Sequence[str] = ("n1", "n2", "n3")):
        self.most, self.names, self.launch = 1000, names, launch
        self.given: list[Path] = []
        self.arrays: list[tuple[int, int]] = []  # blocks, of these at once
        self.without: set[str] = set()
        self.seconds: list[float] = []
        self.cancelled: list[str] = []
        self.waiting: dict[str, Path] = {}
        self.mishap: Callable[[int, Path], bool] = lambda number, folder: False
        self.words, self.why = "", ""
        self.go_on = False  # does a job take further blocks, as real ones do?
        self._monkeypatch = monkeypatch

    def submit(self, folders: Sequence[Path], *, seconds: float, at_once: int, without: Collection[str]) -> list[str]:
        self.arrays.append((len(folders), at_once))
        self.seconds.append(seconds)
        self.without = set(without)
        jobs = []
        for folder in folders:
            number = len(self.given)
            self.given.append(folder)
            jobs.append(str(number))
            if not self.mishap(number, folder):
                self.run(folder, number)
        return jobs

    def run(self, folder: Path, number: int) -> None:
        there = [name for name in self.names if name not in self.without]
        self._monkeypatch.setenv("SLURMD_NODENAME", there[number % len(there)])
        with suppress(HeapyardError):
            if self.go_on:
                work(str(folder), self.seconds[-1], self.launch)
            else:
                carry_out_block(str(folder), self.launch)

    def jobs(self) -> dict[str, Job]:
        return {job: Job(job, "PENDING", why=self.why) for job in self.waiting}

    def last_words(self, job: str) -> str:
        return self.words

    def cancel(self, jobs: Collection[str]) -> None:
        self.cancelled += jobs


class Site:
    """One experiment on a fleet, carried out by one controller after another."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, launch: FakeLaunch | None = None, **settings: object):
        monkeypatch.setenv("HEAPYARD_LOCK", str(folder / "lock"))
        self.launch = launch or FakeLaunch()
        self.engine = Nodes(monkeypatch, self.launch)
        fleet = Fleet(engine="slurm", **settings.pop("fleet", {}))  # type: ignore[arg-type]
        programs = settings.pop("programs", ("one", "two"))
        chosen = {"blocks": 3, "fleet": fleet, **settings}
        self.experiment: Experiment = experiment(programs=programs, **chosen)  # type: ignore[arg-type]
        # A library of make-believe has no content to travel.
        monkeypatch.setattr("heapyard.api.fleet.dispatch.parts_of", lambda experiment: ())
        monkeypatch.setattr("heapyard.api.fleet.agent.LINGER", 0.0)
        monkeypatch.setattr("heapyard.api.fleet.agent.readying", lambda: None)
        monkeypatch.setattr("heapyard.api.fleet.agent.move_together", lambda: None)
        self._parent, self.folder = folder, Path()

    @property
    def room(self) -> Room:
        return room_of(self.folder, self.experiment.settings.fleet)

    def run(self, stop: threading.Event | None = None, watcher: Watcher | None = None) -> Ending:
        """A new controller: it creates the experiment, or goes on with it."""
        journal: StoredJournal = reopen(self.folder) if self.folder.name else create(self.experiment, self._parent)
        self.folder = journal.folder
        with journal:
            blocks = Dispatch(self.experiment, journal, self.engine, self.room, stop or threading.Event(), poll=0.001)
            return carry_out(self.experiment, journal, self.launch, watcher=watcher, blocks=blocks)

    def record(self):
        return load_record(self.folder)

    def events(self, kind: str) -> list[str]:
        return [event.text for event in self.record().events if event.kind == kind]

# SPDX-License-Identifier: Apache-2.0
"""Runs the trials of one block on this machine, in order, and hands over each outcome as it ends."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from ...model.errors import HeapyardError
from ...model.experiment import Settings, Treatment, TrialOutcome
from ...model.journal import UNCOUNTED
from ...model.program import Program
from ..counting import COUNTED_ROUNDS, counts_for, still_wanted
from ..scratch import ScratchFolder
from ..slices import run_in_slices
from .errand import Errand, Stopped
from .plan import WARM_UP

ROOM = 1.1  # for what one trial holds beyond another of the same treatment


class Launch(Protocol):
    """One fresh process launch; see execute.trial.run_trial."""

    def __call__(
        self,
        program: Program,
        treatment: Treatment,
        settings: Settings,
        *,
        pad: int,
        folder: Path,
        stop: threading.Event | None = None,
        turns: socket.socket | None = None,
    ) -> TrialOutcome: ...


class Recorder(Protocol):
    """Writes down what happens in a block; every call has done so when it returns."""

    def begin(self, positions: Sequence[int]) -> None:
        """Before the launch of the trial there, or of all these at once."""

    def end(self, position: int, outcome: TrialOutcome, seconds: Callable[[], float]) -> None:
        """After it. `seconds()`: from its launch to now, or its share of the time that all took."""

    def event(self, kind: str, text: str) -> None: ...


class Runner:
    """`make_ready` is told before each trial how many bytes it may touch (execute.host_memory)."""

    def __init__(
        self,
        launch: Launch,
        stop: threading.Event,
        scratch: Path | None = None,
        make_ready: Callable[[float], None] | None = None,
    ):
        self.stop = stop
        self._launcher, self._scratch, self._make_ready = launch, scratch, make_ready

    def outcomes(self, errand: Errand, recorder: Recorder) -> Iterator[tuple[int, TrialOutcome]]:
        """(position, outcome) of the block's trials as they end: one after another, or all together in slices."""
        if errand.slice:
            yield from self._together(errand, recorder)
            return
        if errand.settings.simulated.wanted:
            yield from self._at_once(errand, recorder)
            return
        for position in errand.positions:
            yield position, self._alone(errand, position, recorder)

    def _alone(self, errand: Errand, position: int, recorder: Recorder) -> TrialOutcome:
        self._heed()
        recorder.begin([position])
        begin = time.monotonic()
        self._ready(errand, [position])
        outcome = self.launch(errand, position)
        return self._end(errand, position, outcome, lambda: time.monotonic() - begin, recorder)

    def _together(self, errand: Errand, recorder: Recorder) -> list[tuple[int, TrialOutcome]]:
        """In slices. Each trial is charged its share of the time that all took together."""
        self._heed()
        recorder.begin(errand.positions)
        begin = time.monotonic()
        self._ready(errand, errand.positions)
        outcomes = run_in_slices(
            [partial(self.launch, errand, position) for position in errand.positions],
            seconds=errand.slice,
            seed=errand.settings.seed + errand.block.index,
        )
        seconds = (time.monotonic() - begin) / len(errand.positions)
        ended = zip(errand.positions, outcomes, strict=True)
        return [(position, self._end(errand, position, one, lambda: seconds, recorder)) for position, one in ended]

    def _at_once(self, errand: Errand, recorder: Recorder) -> Iterator[tuple[int, TrialOutcome]]:
        """On simulated machines: as many at a time as there are processors, for a simulated clock does not see the others. Each is
        charged its share of that time."""
        jobs = min(len(os.sched_getaffinity(0)), len(errand.positions))
        waiting, running = list(errand.positions), dict[Future[TrialOutcome], tuple[int, float]]()
        with ThreadPoolExecutor(max(jobs, 1)) as pool:
            try:
                while waiting or running:
                    while waiting and len(running) < jobs:
                        self._heed()
                        position = waiting.pop(0)
                        recorder.begin([position])
                        running[pool.submit(self.launch, errand, position)] = position, time.monotonic()
                    ended = wait(running, return_when=FIRST_COMPLETED)[0]
                    for future in ended:
                        yield self._share(errand, future, *running.pop(future), jobs, recorder)
            finally:  # who takes no more of them has their ends written down all the same
                for future, begun in running.items():
                    self._share(errand, future, *begun, jobs, recorder)

    def _share(
        self, errand: Errand, future: Future[TrialOutcome], position: int, begin: float, jobs: int, recorder: Recorder
    ) -> tuple[int, TrialOutcome]:
        outcome = future.result()
        return position, self._end(errand, position, outcome, lambda: (time.monotonic() - begin) / jobs, recorder)

    def launch(self, errand: Errand, position: int, turns: socket.socket | None = None) -> TrialOutcome:
        """One launch in a fresh folder, not recorded."""
        shared = {} if turns is None else {"turns": turns}
        with ScratchFolder(self._scratch) as folder:
            return self._launcher(
                errand.program,
                errand.treatments[position],
                errand.settings,
                pad=errand.block.pads[position],
                folder=folder,
                stop=self.stop,
                **shared,
            )

    def _heed(self) -> None:
        if self.stop.is_set():
            raise Stopped

    def _ready(self, errand: Errand, positions: Sequence[int]) -> None:
        """The memory that these trials will touch, as far as earlier ones tell. More would go back to the host unused."""
        if self._make_ready is not None:
            self._make_ready(ROOM * sum(errand.held[position] for position in positions))

    def _end(
        self, errand: Errand, position: int, outcome: TrialOutcome, seconds: Callable[[], float], recorder: Recorder
    ) -> TrialOutcome:
        block = errand.block
        if outcome.status == "ok" and block.stage != WARM_UP and block.round < COUNTED_ROUNDS:
            outcome = replace(outcome, metrics=outcome.metrics | self._count(errand, position, outcome, recorder))
        recorder.end(position, outcome, seconds)
        return outcome

    def _count(self, errand: Errand, position: int, outcome: TrialOutcome, recorder: Recorder) -> dict[str, float]:
        """What the counting launches give; one that fails is told and leaves its numbers out."""
        found: dict[str, float] = {}
        for count in counts_for(errand.settings):
            if self.stop.is_set() or not still_wanted(count, outcome):
                continue
            try:
                with ScratchFolder(self._scratch) as folder:
                    found |= count(errand.program, errand.treatments[position], errand.settings, folder)
            except HeapyardError as error:
                recorder.event(UNCOUNTED, error.message)
        return found

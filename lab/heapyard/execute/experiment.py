# SPDX-License-Identifier: Apache-2.0
"""Carries out an experiment: warm-up, pilot, then stage by stage what its plan asks for (loop.course)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from ..model.experiment import Experiment, TrialOutcome
from ..model.journal import INTERRUPTED, Journal
from .loop.course import Course
from .loop.errand import Errand, Stopped, cut_by_guard
from .loop.plan import MAIN, PILOT, WARM_UP
from .loop.runner import ROOM, Launch, Runner
from .loop.watcher import Moment, Watcher

__all__ = ["ROOM", "Blocks", "Ending", "Launch", "carry_out"]

Ending = Literal["finished", "interrupted"]


class Blocks(Protocol):
    """Where the blocks of an experiment run."""

    def take_up(self, course: Course) -> None:
        """Deal with what an earlier session began and did not end; called once, first."""

    def run_stage(self, course: Course, stage: str) -> None:
        """Run what is due of the stage, as far as the budget goes. Stopped when the user wants an end."""


def carry_out(
    experiment: Experiment,
    journal: Journal,
    launch: Launch,
    *,
    watcher: Watcher | None = None,
    stop: threading.Event | None = None,
    scratch: Path | None = None,
    make_ready: Callable[[float], None] | None = None,
    blocks: Blocks | None = None,
) -> Ending:
    """Run what the journal does not hold yet; "interrupted" when `stop` was set before the end.

    HeapyardError when nothing could be measured: the baseline failed everywhere, or the budget holds not one block.
    `blocks` is where they run. Without it they run here, one trial at a time, each in a fresh folder below `scratch`
    (default: the temporary folder); `make_ready` is told before each trial how many bytes it may touch.
    """
    course = Course(experiment, journal, watcher or Watcher())
    blocks = blocks or Here(Runner(launch, stop or threading.Event(), scratch, make_ready))
    course.begin()
    try:
        blocks.take_up(course)
        blocks.run_stage(course, WARM_UP)
        course.check_alive()
        blocks.run_stage(course, PILOT)
        while not course.short_of_budget:
            blocks.run_stage(course, MAIN)  # first what is planned already: a fixed number, or what an interruption left
            if course.short_of_budget or not course.plan_more():
                break
    except Stopped:
        course.event(INTERRUPTED, f"after {course.plan.done} of {course.plan.planned} blocks")
        return "interrupted"
    course.check_alive()
    if course.short_of_budget:
        course.settle_budget()
    return "finished"


class Here:
    """On this machine, one after another."""

    def __init__(self, runner: Runner):
        self._runner = runner

    def take_up(self, course: Course) -> None:
        """A block that was cut short starts afresh."""
        for block in course.plan.cut_short():
            course.plan.repeat(block)

    def run_stage(self, course: Course, stage: str) -> None:
        while (block := next(course.fitting(stage), None)) is not None:
            if block.workload in course.tally.abandoned():
                course.plan.end(block, "abandoned")
                continue
            errand = course.errand(block)
            outcomes = self._runner.outcomes(errand, _Noted(course, errand))
            course.ended(block, again=cut_by_guard(errand, outcomes, course.event))


class _Noted:
    """Each trial in the journal, before it begins and as it ends."""

    def __init__(self, course: Course, errand: Errand):
        self._course, self._block = course, errand.block
        self._moments: dict[int, tuple[Moment, int]] = {}

    def begin(self, positions: Sequence[int]) -> None:
        moments = {position: self._course.moment(self._block, position) for position in positions}
        self._course.watcher.trial_begins(moments[positions[0]])
        for position, moment in moments.items():
            self._moments[position] = moment, self._course.journal.start_trial(self._block, position)

    def end(self, position: int, outcome: TrialOutcome, seconds: Callable[[], float]) -> None:
        moment, trial = self._moments[position]
        self._course.record(moment, trial, outcome, seconds)

    def event(self, kind: str, text: str) -> None:
        self._course.event(kind, text)

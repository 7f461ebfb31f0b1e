# SPDX-License-Identifier: Apache-2.0
"""The loop that carries out an experiment: warm-up, pilot, then stage by stage what its plan asks for.

Everything is planned in the journal before it runs, and the journal is all the loop needs to go on after an
interruption.
"""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

from ..design.interleaving import SHORTEST, is_whole, slice_length
from ..model.errors import HeapyardError
from ..model.experiment import Block, Experiment, Settings, Treatment, TrialOutcome
from ..model.journal import (
    ABANDONED,
    BUDGET,
    DROPPED,
    INTERRUPTED,
    NOTED,
    REPEATED,
    RESUMED,
    UNCOUNTED,
    Journal,
)
from ..model.metrics import PRIMARY_TIME
from ..model.program import Program
from ..model.units import format_duration
from .counting import COUNTED_ROUNDS, counts_for, still_wanted
from .loop.plan import MAIN, PILOT, WARM_UP, Pair, Plan
from .loop.race import Race
from .loop.stages import Stages
from .loop.tally import Tally
from .loop.watcher import Moment, Watcher
from .scratch import ScratchFolder
from .slices import run_in_slices, why_not

Ending = Literal["finished", "interrupted"]

ROOM = 1.1  # for what one trial holds beyond another of the same treatment
LEAST_PATIENCE = 10.0  # seconds that any trial is given, however quick the warm-up was


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


def carry_out(
    experiment: Experiment,
    journal: Journal,
    launch: Launch,
    *,
    watcher: Watcher | None = None,
    stop: threading.Event | None = None,
    scratch: Path | None = None,
    make_ready: Callable[[float], None] | None = None,
) -> Ending:
    """Run what the journal does not hold yet; "interrupted" when `stop` was set before the end.

    HeapyardError when nothing could be measured: the baseline failed everywhere, or the budget holds not one block.
    `scratch` is where trials get their folders (default: the temporary folder). One trial at a time, each in a fresh
    folder. `make_ready` is told before each trial how many bytes it may touch (execute.host_memory).
    """
    loop = _Loop(experiment, journal, launch, watcher or Watcher(), stop or threading.Event(), scratch, make_ready)
    return loop.run()


class _Stopped(Exception):
    """The user wants an end; the block in hand stays `started`, to be repeated on resumption."""


class _Loop:
    def __init__(
        self,
        experiment: Experiment,
        journal: Journal,
        launch: Launch,
        watcher: Watcher,
        stop: threading.Event,
        scratch: Path | None,
        make_ready: Callable[[float], None] | None,
    ):
        self.settings, self.journal, self.launch = experiment.settings, journal, launch
        self.watcher, self.stop = watcher, stop
        self.scratch, self.make_ready, self.counts = scratch, make_ready, counts_for(self.settings)
        self.programs = {p.name: p for p in experiment.programs}
        self.treatments = {t.label: t for t in experiment.treatments}
        self.plan, self.tally = Plan(experiment, journal), Tally(experiment)
        self.stages = (Race if self.settings.race else Stages)(experiment, self.plan, self.tally)
        self.short_of_budget = False
        self.in_slices: dict[str, bool] = {}  # by workload, once its warm-up has told

    def run(self) -> Ending:
        self.tally.replay(self.journal.trials())
        try:
            self._take_up() if self.plan else self._plan_first_stages()
            self._run_stage(WARM_UP)
            self._check_alive()
            self._run_stage(PILOT)
            while not self.short_of_budget:
                self._run_stage(MAIN)  # first what is planned already: a fixed number, or what an interruption left
                if self.short_of_budget or not self._plan_more():
                    break
        except _Stopped:
            self._event(INTERRUPTED, f"after {self.plan.done} of {self.plan.planned} blocks")
            return "interrupted"
        self._check_alive()
        if self.short_of_budget:
            self._settle_budget()
        return "finished"

    # --- what is to run

    def _plan_first_stages(self) -> None:
        self.plan.extend(WARM_UP, [self.settings.baseline], range(1))
        if self.settings.blocks is None:
            self.plan.extend(PILOT, list(self.treatments), range(self.settings.pilot_blocks))
        else:
            self.plan.extend(MAIN, list(self.treatments), range(self.settings.blocks))

    def _take_up(self) -> None:
        """Go on with an experiment that was interrupted: a block that was cut short starts afresh."""
        self._event(RESUMED, f"after {self.plan.done} of {self.plan.planned} blocks")
        for block in self.plan.cut_short():
            self.plan.repeat(block)

    def _plan_more(self) -> bool:
        """Plan the next stage if there is one; see loop.stages."""
        stage = self.stages.following()
        if stage is None:
            return False
        self.plan.extend(MAIN, list(self.treatments), stage.rounds, stage.without)
        for kind, text in stage.told:
            self._event(kind, text)
        return bool(self.plan.due(MAIN))

    def _next(self, stage: str) -> Block | None:
        """The next block to run; None when there is none, or none that is expected to end within the budget."""
        budget, dropped = self.settings.budget, self.tally.dropped()
        for block in self.plan.due(stage):
            if stage == WARM_UP or budget is None or self.tally.spent + self.tally.expected(block, dropped) <= budget:
                return block
            self.short_of_budget = True
        return None

    # --- running it

    def _run_stage(self, stage: str) -> None:
        while (block := self._next(stage)) is not None:
            if block.workload in self.tally.abandoned():
                self.plan.end(block, "abandoned")
            else:
                self._run_block(block)

    def _run_block(self, block: Block) -> None:
        dropped, abandoned = self.tally.dropped(), self.tally.abandoned()
        again = self._run_trials(block, dropped)
        if again:
            self.plan.repeat(block)
        else:
            self.plan.end(block, "abandoned" if block.workload in self.tally.abandoned() else "done")
        for workload in self.tally.abandoned() - abandoned:
            self._event(
                ABANDONED, f"{workload}: {self._why(workload, self.settings.baseline)}; nothing can be compared there"
            )
        for workload, label in sorted(self.tally.dropped() - dropped):
            if label != self.settings.baseline:
                self._event(
                    DROPPED,
                    f"{label} on {workload}: failed repeatedly ({self._why(workload, label)}); "
                    "it is not launched there again",
                )

    def _run_trials(self, block: Block, dropped: Iterable[Pair]) -> bool:
        """Run the block's trials; True when a guard tripped and the whole block must be repeated."""
        noted = False
        positions = [p for p, label in enumerate(block.order) if (block.workload, label) not in dropped]
        for label, outcome in self._outcomes(block, positions):
            if outcome.status == "interrupted":
                raise _Stopped
            if outcome.tripped and block.stage != WARM_UP and not noted:
                what = f"{_name(block)}: {'; '.join(outcome.tripped)}"
                if self._may_repeat():
                    # The rest of a block that does not count need not run.
                    self._event(REPEATED, f"{what}; the whole block is repeated")
                    return True
                limit = f"{self.settings.redo_limit:.0%}"
                self._event(NOTED, f"{what}; counted all the same: {limit} of the blocks were repeated already")
                noted = True
            if outcome.status == "failed" and label == self.settings.baseline:
                break
        return False

    def _outcomes(self, block: Block, positions: Sequence[int]) -> Iterator[tuple[str, TrialOutcome]]:
        """(label, outcome) of the block's trials as they end: one after another, or all together in slices."""
        if self._shares(block):
            yield from self._run_together(block, positions)
            return
        for position in positions:
            if self.stop.is_set():
                raise _Stopped
            yield block.order[position], self._run_trial(block, position)

    def _run_trial(self, block: Block, position: int) -> TrialOutcome:
        moment = self._moment(block, position)
        self.watcher.trial_begins(moment)
        trial = self.journal.start_trial(block, position)
        begin = time.monotonic()
        self._make_ready(block, [position])
        outcome = self._launch(block, position)
        return self._end_trial(moment, trial, outcome, lambda: time.monotonic() - begin)

    def _run_together(self, block: Block, positions: Sequence[int]) -> list[tuple[str, TrialOutcome]]:
        """In slices. Each trial is charged its share of the time that all took together."""
        if self.stop.is_set():
            raise _Stopped
        moments = [self._moment(block, position) for position in positions]
        self.watcher.trial_begins(moments[0])
        trials = [self.journal.start_trial(block, position) for position in positions]
        begin = time.monotonic()
        self._make_ready(block, positions)
        outcomes = run_in_slices(
            [partial(self._launch, block, position) for position in positions],
            seconds=self.settings.slice or self._slice_length(block.workload),
            seed=self.settings.seed + block.index,
        )
        seconds = (time.monotonic() - begin) / len(positions)
        ended = zip(moments, trials, outcomes, strict=True)
        return [(block.order[m.position], self._end_trial(m, trial, one, lambda: seconds)) for m, trial, one in ended]

    def _launch(self, block: Block, position: int, turns: socket.socket | None = None) -> TrialOutcome:
        program, treatment = self.programs[block.workload], self.treatments[block.order[position]]
        settings, shared = self._settings_for(block.workload), {} if turns is None else {"turns": turns}
        with self._fresh_folder() as folder:
            return self.launch(
                program, treatment, settings, pad=block.pads[position], folder=folder, stop=self.stop, **shared
            )

    def _make_ready(self, block: Block, positions: Sequence[int]) -> None:
        """The memory that these trials will touch, as far as earlier ones tell. More would go back to the host unused."""
        if self.make_ready is not None:
            held = (self.tally.most_held(block.workload, block.order[position]) for position in positions)
            self.make_ready(ROOM * sum(held))

    def _end_trial(self, moment: Moment, trial: int, outcome: TrialOutcome, taken: Callable[[], float]) -> TrialOutcome:
        block, position = moment.block, moment.position
        if outcome.status == "ok" and block.stage != WARM_UP and block.round < COUNTED_ROUNDS:
            program, treatment = self.programs[block.workload], self.treatments[block.order[position]]
            settings = self._settings_for(block.workload)
            outcome = replace(outcome, metrics=outcome.metrics | self._count(program, treatment, settings, outcome))
        self.tally.add(block, position, trial, outcome, taken())
        self.journal.end_trial(trial, outcome)
        self.watcher.trial_ended(moment, outcome)
        return outcome

    def _moment(self, block: Block, position: int) -> Moment:
        return Moment(
            block,
            position,
            self.plan.done,
            self.plan.planned,
            self.tally.trials,
            self.tally.spent,
            self._remaining(),
            self.settings.budget,
        )

    def _slice_length(self, workload: str) -> float:
        cost = self.tally.cost_of_slices(workload)
        return SHORTEST if cost is None else slice_length(cost)

    def _shares(self, block: Block) -> bool:
        """Does the block run in slices? The first trials of its program tell whether it can; then the pilot, whether it shall."""
        settings, workload = self.settings, block.workload
        if settings.interleave == "trials" or block.stage == WARM_UP:
            return False
        pilot = settings.pilot_blocks if settings.blocks is None else min(settings.pilot_blocks, settings.blocks)
        if is_whole(block.round, pilot):
            return False
        if block.stage == MAIN and settings.blocks is None:
            return self.tally.slices_lead(workload)
        if workload not in self.in_slices:
            machine = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
            whole = self.tally.whole_trials(workload)
            memory = self.tally.most_held(workload, settings.baseline)
            asked = settings.interleave == "slices"
            times = [(t[PRIMARY_TIME], t["cpu"]) for t in whole if PRIMARY_TIME in t and not asked]
            why = why_not(
                self.programs[workload], list(self.treatments.values()), times=times, memory=memory, machine=machine
            )
            self.in_slices[workload] = not why
            if why:
                self._event(NOTED, f"{workload} runs one trial after another, not in slices: {why}")
        return self.in_slices[workload]

    def _count(
        self, program: Program, treatment: Treatment, settings: Settings, outcome: TrialOutcome
    ) -> dict[str, float]:
        """What the counting launches give; one that fails is told and leaves its numbers out."""
        found: dict[str, float] = {}
        for count in self.counts:
            if self.stop.is_set() or not still_wanted(count, outcome):
                continue
            try:
                with self._fresh_folder() as folder:
                    found |= count(program, treatment, settings, folder)
            except HeapyardError as error:
                self._event(UNCOUNTED, error.message)
        return found

    @contextmanager
    def _fresh_folder(self) -> Iterator[Path]:
        with ScratchFolder(self.scratch) as folder:
            yield folder

    def _settings_for(self, workload: str) -> Settings:
        """The user's settings, with the time limit that the warm-up suggests if the user left that to us."""
        usual = self.tally.typical(workload, self.settings.baseline)
        if not (self.settings.patience and usual):
            return self.settings
        return replace(
            self.settings, timeout=min(self.settings.timeout, max(LEAST_PATIENCE, self.settings.patience * usual))
        )

    def _may_repeat(self) -> bool:
        return self.tally.tripped_blocks <= math.ceil(self.settings.redo_limit * self.plan.certain)

    # --- how it stands

    def _check_alive(self) -> None:
        """HeapyardError when no workload is left."""
        if self.programs.keys() - self.tally.abandoned():
            return
        reasons = [f"{w}: {self._why(w, self.settings.baseline)}" for w in self.programs]
        more = f" (and {len(reasons) - 1} more programs failed)" if len(reasons) > 1 else ""
        raise HeapyardError(f"nothing can be compared under the baseline {self.settings.baseline}: {reasons[0]}{more}")

    def _settle_budget(self) -> None:
        budget = format_duration(self.settings.budget or 0.0)
        if not self.plan.done:
            block = min(self.plan.due(), key=self.tally.expected)
            raise HeapyardError(
                f"the budget of {budget} is too short: "
                f"one block of {block.workload} ({len(block.order)} launches) takes "
                f"about {format_duration(self.tally.expected(block))}",
                remedy="Give more with --budget, or name fewer allocators.",
            )
        self._event(BUDGET, f"the budget of {budget} was used up after {self.plan.done} of {self.plan.planned} blocks")

    def _remaining(self) -> float:
        """Seconds to the end of what is planned, or of the budget if that comes first."""
        dropped, gone = self.tally.dropped(), self.tally.abandoned()
        alike = self.plan.due_alike().items()
        due = sum(n * self.tally.expected_of(w, labels, dropped) for (w, labels), n in alike if w not in gone)
        due += self.stages.later_seconds(gone, dropped)
        left = math.inf if self.settings.budget is None else max(self.settings.budget - self.tally.spent, 0.0)
        return min(due, left)

    def _why(self, workload: str, label: str) -> str:
        failed = [
            t for t in self.journal.trials() if (t.workload, t.treatment, t.status) == (workload, label, "failed")
        ]
        return failed[-1].reason.rstrip(".") if failed else "it failed"

    def _event(self, kind: str, text: str) -> None:
        self.journal.event(kind, text)
        self.watcher.event(kind, text)


def _name(block: Block) -> str:
    return f"{block.workload}, block {block.round + 1}" + (f", attempt {block.attempt + 1}" if block.attempt else "")

# SPDX-License-Identifier: Apache-2.0
"""The course of an experiment, wherever its blocks run: what comes next, what an ended block changes, how it stands.

Everything is planned in the journal before it runs, and the journal is all that is needed to go on after an
interruption.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from ...design.interleaving import SHORTEST, is_whole, slice_length
from ...model.errors import HeapyardError
from ...model.experiment import Block, Experiment, Settings, TrialOutcome
from ...model.journal import ABANDONED, BUDGET, DROPPED, NOTED, RESUMED, Journal
from ...model.metrics import PRIMARY_TIME
from ...model.units import format_duration
from ..slices import why_not
from .errand import Errand
from .plan import MAIN, PILOT, WARM_UP, Pair, Plan
from .race import Race
from .stages import Stages
from .tally import Tally
from .watcher import Moment, Watcher

LEAST_PATIENCE = 10.0  # seconds that any trial is given, however quick the warm-up was


class Course:
    """Plan, tally and decisions of one experiment. Queries are O(trials) at most, and asked between trials only."""

    def __init__(self, experiment: Experiment, journal: Journal, watcher: Watcher):
        self.settings, self.journal, self.watcher = experiment.settings, journal, watcher
        self.programs = {p.name: p for p in experiment.programs}
        self.treatments = {t.label: t for t in experiment.treatments}
        self.plan, self.tally = Plan(experiment, journal), Tally(experiment)
        self.stages = (Race if self.settings.race else Stages)(experiment, self.plan, self.tally)
        self.short_of_budget = False
        self._in_slices: dict[str, bool] = {}  # by workload, once its warm-up has told
        self._known: tuple[set[Pair], set[str]] = set(), set()  # dropped and abandoned, as far as events told

    # --- what is to run

    def begin(self) -> None:
        """Plan the first stages, or take up what an earlier session left; blocks that it cut short are not dealt with."""
        self.tally.replay(self.journal.trials())
        self._known = self.tally.dropped(), self.tally.abandoned()
        if self.plan:
            self.event(RESUMED, f"after {self.plan.done} of {self.plan.planned} blocks")
            return
        if not self.settings.simulated.wanted:  # whose caches are cold whatever ran before
            self.plan.extend(WARM_UP, [self.settings.baseline], range(1))
        if self.settings.blocks is None:
            self.plan.extend(PILOT, list(self.treatments), range(self.settings.pilot_blocks))
        else:
            self.plan.extend(MAIN, list(self.treatments), range(self.settings.blocks))

    def plan_more(self) -> bool:
        """Plan the next stage if there is one; see loop.stages."""
        stage = self.stages.following()
        if stage is None:
            return False
        self.plan.extend(MAIN, list(self.treatments), stage.rounds, stage.without)
        for kind, text in stage.told:
            self.event(kind, text)
        return bool(self.plan.due(MAIN))

    def fitting(self, stage: str, out: Collection[Block] = ()) -> Iterator[Block]:
        """Blocks that are due, in order, as long as they are expected to end within the budget with those before them.

        `out`: blocks that run elsewhere already; what they are expected to take is spent. O(blocks log blocks).
        """
        budget, dropped, away = self.settings.budget, self.tally.dropped(), {block.index for block in out}
        bound = self.tally.spent + sum(self.tally.expected(block, dropped) for block in out)
        for block in self.plan.due(stage):
            if block.index in away:
                continue
            seconds = self.tally.expected(block, dropped)
            if stage == WARM_UP or budget is None or bound + seconds <= budget:
                yield block
                bound += seconds
            else:
                self.short_of_budget = True

    def errand(self, block: Block, out: int = 0) -> Errand:
        """All that it takes to run the block, as it stands now. `out`: blocks elsewhere that a guard may cut short yet."""
        dropped, settings = self.tally.dropped(), self._settings_for(block.workload)
        settings = replace(settings, simulated=settings.simulated.for_round(block.round))
        shared = self._shares(block)
        return Errand(
            block=block,
            program=self.programs[block.workload],
            treatments=tuple(self.treatments[label] for label in block.order),
            settings=settings,
            positions=tuple(p for p, label in enumerate(block.order) if (block.workload, label) not in dropped),
            held=tuple(self.tally.most_held(block.workload, label) for label in block.order),
            slice=(settings.slice or self._slice_length(block.workload)) if shared else 0.0,
            repeatable=self.may_repeat(out + 1),
        )

    # --- what has run

    def ended(self, block: Block, *, again: bool) -> None:
        """The block's trials are in the tally; `again`: they do not count, and the block is repeated."""
        if again:
            self.plan.repeat(block)
        else:
            self.plan.end(block, "abandoned" if block.workload in self.tally.abandoned() else "done")
        dropped, abandoned = self.tally.dropped(), self.tally.abandoned()
        for workload in abandoned - self._known[1]:
            self.event(
                ABANDONED, f"{workload}: {self._why(workload, self.settings.baseline)}; nothing can be compared there"
            )
        for workload, label in sorted(dropped - self._known[0]):
            if label != self.settings.baseline:
                self.event(
                    DROPPED,
                    f"{label} on {workload}: failed repeatedly ({self._why(workload, label)}); "
                    "it is not launched there again",
                )
        self._known = dropped, abandoned

    def record(self, moment: Moment, trial: int, outcome: TrialOutcome, taken: Callable[[], float]) -> None:
        """A trial of this machine has ended. `taken()`: seconds since its launch."""
        self.tally.add(moment.block, moment.position, trial, outcome, taken())
        self.journal.end_trial(trial, outcome)
        self.watcher.trial_ended(moment, outcome)

    def may_repeat(self, more: int = 0) -> bool:
        """May the blocks in which a guard tripped be repeated, were it `more` of them?"""
        return self.tally.tripped_blocks + more <= math.ceil(self.settings.redo_limit * self.plan.certain)

    # --- how it stands

    def check_alive(self) -> None:
        """HeapyardError when no workload is left."""
        if self.programs.keys() - self.tally.abandoned():
            return
        reasons = [f"{w}: {self._why(w, self.settings.baseline)}" for w in self.programs]
        more = f" (and {len(reasons) - 1} more programs failed)" if len(reasons) > 1 else ""
        raise HeapyardError(f"nothing can be compared under the baseline {self.settings.baseline}: {reasons[0]}{more}")

    def settle_budget(self) -> None:
        """Say that the budget was used up; HeapyardError when it held not one block."""
        budget = format_duration(self.settings.budget or 0.0)
        if not self.plan.done:
            block = min(self.plan.due(), key=self.tally.expected)
            raise HeapyardError(
                f"the budget of {budget} is too short: "
                f"one block of {block.workload} ({len(block.order)} launches) takes "
                f"about {format_duration(self.tally.expected(block))}",
                remedy="Give more with --budget, or name fewer allocators.",
            )
        self.event(BUDGET, f"the budget of {budget} was used up after {self.plan.done} of {self.plan.planned} blocks")

    def moment(self, block: Block, position: int) -> Moment:
        return Moment(
            block,
            position,
            self.plan.done,
            self.plan.planned,
            self.tally.trials,
            self.tally.spent,
            self.remaining(),
            self.settings.budget,
        )

    def remaining(self) -> float:
        """Seconds in trials to the end of what is planned, or of the budget if that comes first."""
        dropped, gone = self.tally.dropped(), self.tally.abandoned()
        alike = self.plan.due_alike().items()
        due = sum(n * self.tally.expected_of(w, labels, dropped) for (w, labels), n in alike if w not in gone)
        due += self.stages.later_seconds(gone, dropped)
        left = math.inf if self.settings.budget is None else max(self.settings.budget - self.tally.spent, 0.0)
        return min(due, left)

    def event(self, kind: str, text: str) -> None:
        self.journal.event(kind, text)
        self.watcher.event(kind, text)

    # --- inside

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
        if workload not in self._in_slices:
            machine = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
            whole = self.tally.whole_trials(workload)
            memory = self.tally.most_held(workload, settings.baseline)
            asked = settings.interleave == "slices"
            times = [(t[PRIMARY_TIME], t["cpu"]) for t in whole if PRIMARY_TIME in t and not asked]
            why = why_not(
                self.programs[workload], list(self.treatments.values()), times=times, memory=memory, machine=machine
            )
            self._in_slices[workload] = not why
            if why:
                self.event(NOTED, f"{workload} runs one trial after another, not in slices: {why}")
        return self._in_slices[workload]

    def _settings_for(self, workload: str) -> Settings:
        """The user's settings, with the time limit that the warm-up suggests if the user left that to us."""
        usual = self.tally.typical(workload, self.settings.baseline)
        if not (self.settings.patience and usual):
            return self.settings
        return replace(
            self.settings, timeout=min(self.settings.timeout, max(LEAST_PATIENCE, self.settings.patience * usual))
        )

    def _why(self, workload: str, label: str) -> str:
        failed = [
            t for t in self.journal.trials() if (t.workload, t.treatment, t.status) == (workload, label, "failed")
        ]
        return failed[-1].reason.rstrip(".") if failed else "it failed"

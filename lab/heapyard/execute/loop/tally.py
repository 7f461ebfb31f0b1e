# SPDX-License-Identifier: Apache-2.0
"""What an experiment has learned so far: durations, failures, leading responses; rebuilt when it is resumed."""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from ...design.interleaving import Timed, interpreted, is_whole, slices_lead
from ...model.experiment import Block, Experiment, TrialOutcome
from ...model.metrics import PRIMARY_TIME, SLICES
from ...model.record import TrialRecord
from .answers import Answers
from .plan import MAIN, WARM_UP, Pair

FAILURES_TO_DROP = 2  # of one treatment on one workload


@dataclass(frozen=True, slots=True)
class Seen:
    """The little that the loop must remember of a trial. `seconds`: from launch to the next thing the lab did."""

    id: int
    block: int
    round: int
    workload: str
    treatment: str
    status: str
    answer: str
    seconds: float
    responses: Mapping[str, float]  # the few that plans look at; those it has
    stage: str
    tripped: bool  # a guard was over its limit


class Tally:
    """Trials of one experiment as they come in.

    What is asked at every trial or block costs O(workloads x treatments) at most, however many trials there were; what is asked
    at the end of a stage costs O(trials of the workload).
    """

    def __init__(self, experiment: Experiment):
        self._experiment = experiment
        self._baseline = experiment.settings.baseline
        # Wall time sizes the plan; the responses that the verdict speaks of are what looks ask about.
        self._watched = {PRIMARY_TIME, "cpu", SLICES, experiment.settings.time_metric, experiment.settings.memory_metric}
        self._reference = {self._baseline, *(t.label for t in experiment.treatments if t.role == "control")}
        self._of: dict[str, list[Seen]] = defaultdict(list)  # by workload
        self._trials, self._spent, self._tripped = 0, 0.0, set[int]()
        self._seconds: dict[Pair, list[float]] = defaultdict(list)  # ascending
        self._held: dict[Pair, float] = {}  # most bytes of a whole trial
        self._answers = Answers(experiment, self._reference)
        self._timed: dict[str, list[Timed]] = defaultdict(list)  # what the choice of slices rests on
        self._told: set[tuple[str, bool]] = set()  # workload, sliced: a trial after the pilot has told that
        self._leads: dict[str, bool] | None = None
        self._costs: dict[str, float] = {}  # of slices, by workload

    def add(self, block: Block, position: int, trial: int, outcome: TrialOutcome, seconds: float) -> None:
        """A trial that has just ended."""
        self._add(
            Seen(
                trial,
                block.index,
                block.round,
                block.workload,
                block.order[position],
                outcome.status,
                outcome.answer,
                seconds,
                self._responses(outcome.metrics),
                block.stage,
                bool(outcome.tripped) and block.stage != WARM_UP,
            )
        )

    def replay(self, trials: Iterable[TrialRecord]) -> None:
        """The trials of earlier sessions; those without an end did not finish. In slices each took its share of the time."""
        trials = list(trials)
        sliced = {t.block for t in trials if SLICES in t.metrics}
        sharing = Counter(t.block for t in trials if t.block in sliced)
        for t in trials:
            self._add(
                Seen(
                    t.id,
                    t.block,
                    t.round,
                    t.workload,
                    t.treatment,
                    t.status,
                    t.answer,
                    (t.ended - t.started) / max(sharing[t.block], 1),
                    self._responses(t.metrics),
                    t.stage,
                    bool(t.tripped) and t.stage != WARM_UP,
                )
            )

    def _responses(self, metrics: Mapping[str, float]) -> dict[str, float]:
        return {name: metrics[name] for name in self._watched if name in metrics}

    def _add(self, seen: Seen) -> None:
        pair = seen.workload, seen.treatment
        self._of[seen.workload].append(seen)
        self._spent += seen.seconds
        self._answers.add(seen)
        if seen.status in ("ok", "failed"):
            self._trials += 1
            insort(self._seconds[pair], seen.seconds)
        if seen.tripped:
            self._tripped.add(seen.block)
        if seen.status == "ok":
            self._add_timed(seen)
            if SLICES not in seen.responses:
                held = seen.responses.get(self._experiment.settings.memory_metric, 0.0)
                self._held[pair] = max(held, self._held.get(pair, 0.0))

    def _add_timed(self, seen: Seen) -> None:
        """What was decided after the pilot stays so: of the trials of a program that tell it, one is as good as all."""
        settings, sliced = self._experiment.settings, SLICES in seen.responses
        if settings.blocks is None and seen.stage == MAIN:
            if is_whole(seen.round, settings.pilot_blocks) or (seen.workload, sliced) in self._told:
                return
            self._told.add((seen.workload, sliced))
        timed = Timed(seen.stage, seen.round, seen.block, seen.treatment, sliced, seen.responses.get(PRIMARY_TIME, 0.0))
        self._timed[seen.workload].append(timed)
        self._leads = None

    @property
    def trials(self) -> int:
        """Trials that ended, whatever came of them."""
        return self._trials

    @property
    def spent(self) -> float:
        """Seconds in trials so far, in all sessions."""
        return self._spent

    @property
    def tripped_blocks(self) -> int:
        """Blocks in which a guard tripped, the one in hand included."""
        return len(self._tripped)

    def failures(self) -> dict[Pair, int]:
        """Failed trials by (workload, treatment), wrong answers included; only pairs that failed."""
        return self._answers.failures()

    def dropped(self) -> set[Pair]:
        """(workload, treatment) pairs that are not launched again."""
        return {pair for pair, failed in self.failures().items() if failed >= FAILURES_TO_DROP}

    def abandoned(self) -> set[str]:
        """Workloads on which the baseline failed, so that nothing can be compared."""
        return {workload for workload, label in self.failures() if label == self._baseline}

    def typical(self, workload: str, label: str) -> float:
        """Seconds a trial takes: the median so far; of the baseline if the treatment has not run; 0 if nothing has."""
        seconds = self._seconds.get((workload, label)) or self._seconds.get((workload, self._baseline))
        if not seconds:
            return 0.0
        middle = len(seconds) // 2
        return seconds[middle] if len(seconds) % 2 else (seconds[middle - 1] + seconds[middle]) / 2

    def whole_trials(self, workload: str) -> list[Mapping[str, float]]:
        """What the baseline's whole trials said so far, the warm-up and its control included: wall time, CPU time, and the
        responses that the verdict speaks of."""
        return [
            s.responses
            for s in self._of[workload]
            if s.treatment in self._reference and s.status == "ok" and SLICES not in s.responses
        ]

    def most_held(self, workload: str, label: str) -> float:
        """Bytes that whole trials held at most; those of the baseline (its control included) where the treatment has had none;
        0 before the first."""
        if (workload, label) in self._held:
            return self._held[workload, label]
        return max((self._held.get((workload, one), 0.0) for one in self._reference), default=0.0)

    def slices_lead(self, workload: str) -> bool:
        """Are the workload's times taken in slices? See design.interleaving."""
        if self._leads is None:
            self._leads = slices_lead(self._experiment.settings, self._timed)
        return self._leads.get(workload, False)

    def cost_of_slices(self, workload: str) -> float | None:
        """CPU time in the first block that ran in slices over that of whole trials, of the same treatments; None before."""
        if workload in self._costs:
            return self._costs[workload]
        alone: dict[str, list[float]] = defaultdict(list)
        sliced: dict[int, dict[str, float]] = defaultdict(dict)
        for s in self._of[workload]:
            if s.status == "ok" and s.responses.get("cpu", 0) > 0:
                if SLICES in s.responses:
                    sliced[s.block][s.treatment] = math.log(s.responses["cpu"])
                elif not sliced and s.stage != WARM_UP:
                    alone[s.treatment].append(math.log(s.responses["cpu"]))
        if not sliced:
            return None
        ratios = [cpu - mean(alone[label]) for label, cpu in sliced[min(sliced)].items() if label in alone]
        if ratios and len(sliced) > 1:  # the first of them has ended
            self._costs[workload] = math.exp(mean(ratios))
        return math.exp(mean(ratios)) if ratios else None

    def expected(self, block: Block, dropped: Iterable[Pair] = ()) -> float:
        """Seconds the block will take without the dropped treatments."""
        return self.expected_of(block.workload, block.order, dropped)

    def expected_of(self, workload: str, labels: Iterable[str], dropped: Iterable[Pair] = ()) -> float:
        """The same of any block of the workload with these labels."""
        out = {label for of, label in dropped if of == workload}
        return sum(self.typical(workload, label) for label in labels if label not in out)

    def measured(self, workload: str) -> list[str]:
        """Labels that never failed on the workload, in plan order."""
        failed = {label for w, label in self.failures() if w == workload}
        return [t.label for t in self._experiment.treatments if t.label not in failed]

    def logs(self, workload: str, blocks: Iterable[int], metric: str, labels: Sequence[str]) -> list[list[float]]:
        """ln(response), those of the given blocks that are complete for `labels` x `labels`; `metric` is wall time or one
        that the verdict speaks of."""
        lead = self.slices_lead(workload)
        found: dict[int, dict[str, float]] = {index: {} for index in blocks}
        for s in self._of[workload]:
            if s.block in found and s.status == "ok":
                value = interpreted(s.responses, lead=lead).get(metric, math.nan)
                if value > 0:
                    found[s.block][s.treatment] = math.log(value)
        return [[row[label] for label in labels] for row in found.values() if all(label in row for label in labels)]

# SPDX-License-Identifier: Apache-2.0
"""What an experiment has learned so far: durations, failures, leading responses; rebuilt when it is resumed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from ...design.interleaving import Timed, interpreted, slices_lead
from ...model.answers import wrong_answers
from ...model.experiment import Block, Experiment, TrialOutcome
from ...model.metrics import PRIMARY_TIME, SLICES
from ...model.record import TrialRecord
from .plan import WARM_UP, Pair

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
    """Trials of one experiment as they come in. Queries are O(trials) at most, and asked between trials only."""

    def __init__(self, experiment: Experiment):
        self._experiment = experiment
        self._baseline = experiment.settings.baseline
        # Wall time sizes the plan; the responses that the verdict speaks of are what looks ask about.
        self._watched = {PRIMARY_TIME, "cpu", SLICES, experiment.settings.time_metric, experiment.settings.memory_metric}
        self._reference = {self._baseline, *(t.label for t in experiment.treatments if t.role == "control")}
        self._seen: list[Seen] = []
        self._leads: tuple[int, dict[str, bool]] = 0, {}  # by workload, as after so many trials
        self._seconds: dict[Pair, list[float]] = defaultdict(list)

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
        """The trials of earlier sessions; those without an end did not finish."""
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
                    t.ended - t.started,
                    self._responses(t.metrics),
                    t.stage,
                    bool(t.tripped) and t.stage != WARM_UP,
                )
            )

    def _responses(self, metrics: Mapping[str, float]) -> dict[str, float]:
        return {name: metrics[name] for name in self._watched if name in metrics}

    def _add(self, seen: Seen) -> None:
        self._seen.append(seen)
        if seen.status in ("ok", "failed"):
            self._seconds[seen.workload, seen.treatment].append(seen.seconds)

    @property
    def trials(self) -> int:
        """Trials that ended, whatever came of them."""
        return sum(s.status in ("ok", "failed") for s in self._seen)

    @property
    def spent(self) -> float:
        """Seconds in trials so far, in all sessions."""
        return sum(s.seconds for s in self._seen)

    @property
    def tripped_blocks(self) -> int:
        """Blocks in which a guard tripped, the one in hand included."""
        return len({s.block for s in self._seen if s.tripped})

    def failures(self) -> dict[Pair, int]:
        """Failed trials by (workload, treatment), wrong answers included; only pairs that failed."""
        wrong = wrong_answers(self._seen, self._experiment.programs, self._reference)
        counts: dict[Pair, int] = defaultdict(int)
        for s in self._seen:
            if s.status == "failed" or s.id in wrong:
                counts[s.workload, s.treatment] += 1
        return dict(counts)

    def dropped(self) -> set[Pair]:
        """(workload, treatment) pairs that are not launched again."""
        return {pair for pair, failed in self.failures().items() if failed >= FAILURES_TO_DROP}

    def abandoned(self) -> set[str]:
        """Workloads on which the baseline failed, so that nothing can be compared."""
        return {workload for workload, label in self.failures() if label == self._baseline}

    def typical(self, workload: str, label: str) -> float:
        """Seconds a trial takes: the median so far; of the baseline if the treatment has not run; 0 if nothing has."""
        seconds = self._seconds.get((workload, label)) or self._seconds.get((workload, self._baseline))
        return median(seconds) if seconds else 0.0

    def whole_trials(self, workload: str) -> list[Mapping[str, float]]:
        """What the baseline's whole trials said so far, the warm-up and its control included: wall time, CPU time, and the
        responses that the verdict speaks of."""
        return [
            s.responses
            for s in self._seen
            if s.workload == workload and s.treatment in self._reference and s.status == "ok" and SLICES not in s.responses
        ]

    def most_held(self, workload: str, label: str) -> float:
        """Bytes that whole trials held at most; those of the baseline (its control included) where the treatment has had none;
        0 before the first."""
        metric, whole = self._experiment.settings.memory_metric, [s for s in self._seen if s.workload == workload]
        whole = [s for s in whole if s.status == "ok" and SLICES not in s.responses]
        of = [s for s in whole if s.treatment == label] or [s for s in whole if s.treatment in self._reference]
        return max((s.responses.get(metric, 0.0) for s in of), default=0.0)

    def slices_lead(self, workload: str) -> bool:
        """Are the workload's times taken in slices? See design.interleaving."""
        if self._leads[0] != len(self._seen):
            timed: dict[str, list[Timed]] = defaultdict(list)
            for s in self._seen:
                if s.status == "ok":
                    wall = s.responses.get(PRIMARY_TIME, 0.0)
                    timed[s.workload].append(Timed(s.stage, s.round, s.block, s.treatment, SLICES in s.responses, wall))
            self._leads = len(self._seen), slices_lead(self._experiment.settings, timed)
        return self._leads[1].get(workload, False)

    def cost_of_slices(self, workload: str) -> float | None:
        """CPU time in the first block that ran in slices over that of whole trials, of the same treatments; None before."""
        alone: dict[str, list[float]] = defaultdict(list)
        sliced: dict[int, dict[str, float]] = defaultdict(dict)
        for s in self._seen:
            if s.workload == workload and s.status == "ok" and s.responses.get("cpu", 0) > 0:
                if SLICES in s.responses:
                    sliced[s.block][s.treatment] = math.log(s.responses["cpu"])
                elif not sliced and s.stage != WARM_UP:
                    alone[s.treatment].append(math.log(s.responses["cpu"]))
        if not sliced:
            return None
        ratios = [cpu - mean(alone[label]) for label, cpu in sliced[min(sliced)].items() if label in alone]
        return math.exp(mean(ratios)) if ratios else None

    def expected(self, block: Block, dropped: Iterable[Pair] = ()) -> float:
        """Seconds the block will take without the dropped treatments."""
        out = {label for workload, label in dropped if workload == block.workload}
        return sum(self.typical(block.workload, label) for label in block.order if label not in out)

    def measured(self, workload: str) -> list[str]:
        """Labels that never failed on the workload, in plan order."""
        failed = {label for w, label in self.failures() if w == workload}
        return [t.label for t in self._experiment.treatments if t.label not in failed]

    def logs(self, workload: str, blocks: Iterable[int], metric: str, labels: Sequence[str]) -> list[list[float]]:
        """ln(response), those of the given blocks that are complete for `labels` x `labels`; `metric` is wall time or one
        that the verdict speaks of."""
        lead = self.slices_lead(workload)
        found: dict[int, dict[str, float]] = {index: {} for index in blocks}
        for s in self._seen:
            value = interpreted(s.responses, lead=lead).get(metric, math.nan)
            if s.workload == workload and s.block in found and s.status == "ok" and value > 0:
                found[s.block][s.treatment] = math.log(value)
        return [[row[label] for label in labels] for row in found.values() if all(label in row for label in labels)]

# SPDX-License-Identifier: Apache-2.0
"""Failures by workload and treatment as trials come in; what a wrong answer is, says model.answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from ...model.answers import Answered
from ...model.experiment import Experiment
from .plan import Pair


class Answers:
    """Counts of failed launches and of answers. Adding is O(1), asking O(workloads x treatments)."""

    def __init__(self, experiment: Experiment, reference: Collection[str]):
        self._reference = reference
        self._judged = {p.name for p in experiment.programs if p.answer.output == "consistent"}
        self._failed: Counter[Pair] = Counter()
        self._said: dict[Pair, Counter[str]] = defaultdict(Counter)  # answers of launches that ended well
        self._given: Counter[Pair] = Counter()  # how many those are
        self._agreed: dict[str, Counter[str]] = defaultdict(Counter)  # by workload, under the reference

    def add(self, trial: Answered) -> None:
        pair = trial.workload, trial.treatment
        if trial.status == "failed":
            self._failed[pair] += 1
        elif trial.status == "ok" and trial.answer and trial.workload in self._judged:
            self._said[pair][trial.answer] += 1
            self._given[pair] += 1
            if trial.treatment in self._reference:
                self._agreed[trial.workload][trial.answer] += 1

    def failures(self) -> dict[Pair, int]:
        """Failed launches and wrong answers; only pairs that have any."""
        counts = dict(self._failed)
        for pair, given in self._given.items():
            agreed = self._agreed[pair[0]]
            if len(agreed) == 1 and agreed.total() > 1:
                wrong = given - self._said[pair][next(iter(agreed))]
                if wrong:
                    counts[pair] = counts.get(pair, 0) + wrong
        return counts

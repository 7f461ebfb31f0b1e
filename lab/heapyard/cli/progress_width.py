# SPDX-License-Identifier: Apache-2.0
"""The interval as it narrows while an experiment runs: for display only, no decision depends on it."""

from __future__ import annotations

import math
from collections import defaultdict

from ..model.experiment import Block, TrialOutcome


class LiveWidth:
    """Half-widths of a ratio of `metric` by workload, as ratio minus one."""

    def __init__(self, confidence: float, metric: str):
        self._confidence, self._metric = confidence, metric
        self._logs: dict[str, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        self._going: dict[str, tuple[str, ...]] = {}  # labels that the newest block holds: others were released

    def add(self, block: Block, position: int, outcome: TrialOutcome) -> None:
        """A trial that has ended."""
        value = outcome.metrics.get(self._metric, 0.0)
        if block.stage != "warmup" and outcome.status == "ok" and value > 0:
            self._logs[block.workload][block.index][block.order[position]] = math.log(value)
            self._going[block.workload] = block.order

    def of(self, workload: str) -> float | None:
        """Half-width from the complete blocks so far; None before the second. O(blocks x treatments)."""
        blocks = self._logs[workload].values()
        labels = [label for label in self._going.get(workload, ()) if any(label in logs for logs in blocks)]
        table = [[logs[label] for label in labels] for logs in blocks if logs.keys() >= set(labels)]
        if len(table) < 2 or len(labels) < 2:
            return None
        from scipy.special import stdtrit

        from ..stats.block_model import fit

        model = fit(table)
        t = float(stdtrit(model.df, (1 + self._confidence) / 2))
        return math.expm1(t * math.sqrt(2 * model.mean_square / model.blocks))

# SPDX-License-Identifier: Apache-2.0
"""What follows the pilot of a race: at looks fixed beforehand the beaten leave, and the others go on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...design.racing import beaten
from ...model.experiment import Experiment
from ...model.journal import SETTLED
from ...model.metrics import metric_named
from .plan import Pair, Plan
from .stages import Stage
from .tally import Tally


class Race:
    """In place of Stages where settings.race names families. One workload; the baseline runs to the end.

    A family is decided when fewer than two choices are left beside its default; then none of it runs on. Decisions depend on
    the stored plan and the trials alone.
    """

    def __init__(self, experiment: Experiment, plan: Plan, tally: Tally):
        self._settings, self._plan, self._tally = experiment.settings, plan, tally
        self._workload = experiment.programs[0].name

    def following(self) -> Stage | None:
        """The rounds to the next look for those that are left; None when all families are decided or have had their rounds."""
        settings, now = self._settings, self._plan.rounds(self._workload)
        running = set(self._plan.last_labels(self._workload))
        families = [[label for label in family if label in running] for family in settings.race]
        families = [family for family in families if len(family) > 1]
        entered = sum(len(family) - 1 for family in families)
        if now >= settings.max_blocks or not entered:
            return None
        left = [self._left(family) for family in families]
        remaining = sum(len(family) - 1 for family in left if family)
        told = (SETTLED, f"after {now} blocks {entered - remaining} of {entered} choices are beaten")
        going = {label for family in left if len(family) > 2 for label in family}
        if not going:
            return Stage(told=[told])
        until = min(next((look for look in settings.looks if look > now), settings.max_blocks), settings.max_blocks)
        out = {(self._workload, label) for label in running - going - {settings.baseline}}
        return Stage({self._workload: range(now, until)}, out | self._released(running), [told])

    def later_seconds(self, gone: Collection[str], dropped: Collection[Pair]) -> float:
        """Expected duration of the rounds up to the last one if nobody else leaves."""
        if self._workload in gone:
            return 0.0
        labels = [label for label in self._plan.last_labels(self._workload) if (self._workload, label) not in dropped]
        further = max(self._settings.max_blocks - self._plan.rounds(self._workload), 0)
        return further * sum(self._tally.typical(self._workload, label) for label in labels)

    def _released(self, running: set[str]) -> set[Pair]:
        """Those that left at earlier looks, or failed."""
        everyone = {label for family in self._settings.race for label in family} - {self._settings.baseline}
        return {(self._workload, label) for label in everyone - running} | self._tally.dropped()

    def _left(self, family: Sequence[str]) -> list[str]:
        """The family without those that failed or are beaten; nobody where the default itself failed."""
        measured = set(self._tally.measured(self._workload))
        if family[0] not in measured:
            return []
        family = [label for label in family if label in measured]
        out = beaten([self._logs(family, metric) for metric in self._metrics()],
                     (self._settings.margin_time, self._settings.margin_memory))
        return [label for label, gone in zip(family, out or [False] * len(family), strict=True) if not gone]

    def _metrics(self) -> tuple[str, str]:
        return self._settings.time_metric, self._settings.memory_metric

    def _logs(self, family: Sequence[str], metric: str) -> list[list[float]]:
        sign = -1.0 if metric_named(metric).direction == "higher" else 1.0
        rows = self._tally.logs(self._workload, self._plan.done_blocks(self._workload), metric, family)
        return [[sign * value for value in row] for row in rows]

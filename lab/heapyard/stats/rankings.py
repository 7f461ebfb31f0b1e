"""Ranks of treatments over workloads, with the bootstrap's ratios: an answer for "programs of this kind"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..model.analysis import Ranked, Ranking
from ..model.experiment import Settings
from ..model.metrics import metric_named
from .hierarchical import LEAST_WORKLOADS, hierarchical_bootstrap
from .rank_tests import rank_test
from .scale import scale_for, sign_of
from .tables import Table


def ranking_of(
    metric: str, tables: Sequence[Table], workloads: Sequence[str], treatments: Sequence[str], *, baseline: str,
    settings: Settings,
) -> Ranking | None:
    """Over the common set of workloads and treatments; None with fewer than LEAST_WORKLOADS or two treatments.

    O(treatments^2 tests + draws x observations).
    """
    if len(workloads) < LEAST_WORKLOADS or len(treatments) < 2 or baseline not in treatments:
        return None
    chosen = {table.workload: table for table in tables}
    logs = []
    for workload in workloads:
        table = chosen[workload]
        y = scale_for(metric_named(metric), table.values).forward(table.values)
        logs.append(y[:, [table.labels.index(t) for t in treatments]])
    sign = 1 if sign_of(metric_named(metric).direction) <= 0 else -1  # so that the least is the best
    tested = rank_test(sign * np.array([y.mean(axis=0) for y in logs]), confidence=settings.confidence)
    resampled = hierarchical_bootstrap(logs, list(treatments).index(baseline), confidence=settings.confidence)
    best = resampled.best if sign > 0 else hierarchical_bootstrap([-y for y in logs], 0).best
    order = sorted(range(len(treatments)), key=lambda i: float(tested.ranks[i]))
    rows = tuple(
        Ranked(treatments[i], float(tested.ranks[i]), tested.letters[i], resampled.intervals[i], best[i]) for i in order
    )
    return Ranking(metric, len(workloads), tested.p, tested.critical_difference, rows)

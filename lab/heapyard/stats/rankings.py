# SPDX-License-Identifier: Apache-2.0
"""Ranks of treatments over programs: another question than that of the means, asked where it can be answered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..model.analysis import Ranked, Ranking
from ..model.experiment import Settings
from ..model.metrics import metric_named
from .rank_tests import can_tell_pairs, rank_test
from .scale import logs_of, sign_of
from .tables import Table


def ranking_of(
    metric: str, tables: Sequence[Table], workloads: Sequence[str], treatments: Sequence[str], *, settings: Settings
) -> Ranking | None:
    """Over the common set of programs and treatments; None where no outcome could tell a pair apart, or with fewer than two
    treatments. O(treatments^2 tests)."""
    if len(treatments) < 2 or not can_tell_pairs(len(workloads), len(treatments), confidence=settings.confidence):
        return None
    chosen = {table.workload: table for table in tables}
    means = [
        logs_of(chosen[w]).mean(axis=0)[[chosen[w].labels.index(t) for t in treatments]] for w in workloads
    ]
    sign = 1 if sign_of(metric_named(metric).direction) <= 0 else -1  # so that the least is the best
    tested = rank_test(sign * np.array(means), confidence=settings.confidence)
    order = sorted(range(len(treatments)), key=lambda i: float(tested.ranks[i]))
    rows = tuple(Ranked(treatments[i], float(tested.ranks[i]), tested.letters[i]) for i in order)
    return Ranking(metric, len(workloads), tested.p, tested.critical_difference, rows)

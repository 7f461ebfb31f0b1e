# SPDX-License-Identifier: Apache-2.0
"""Times in slices beside times alone: what cold caches cost, and where a ratio is another one.

In an experiment with slices some blocks run whole trials (design/interleaving.py), so every run checks itself.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from ..model.experiment import Settings
from ..model.metrics import ALONE, SLICES
from ..model.observations import Observations
from .contrasts import exp_capped
from .quantiles import t_quantile
from .tables import Table


@dataclass(frozen=True, slots=True)
class Apart:
    """A ratio to the baseline that differs: in slices, of whole trials, and by how much (a ratio with its interval)."""

    workload: str
    treatment: str
    in_slices: float
    alone: float
    low: float
    high: float


def cost_of_slices(tables: Sequence[Table], baseline: str) -> dict[str, float]:
    """By workload: the baseline's CPU time in slices over that of its whole trials, of geometric means."""
    sliced, alone = (_by_workload(tables, metric) for metric in ("cpu", "cpu" + ALONE))
    return {w: math.exp(_mean(sliced[w], baseline) - _mean(alone[w], baseline)) for w in sliced if w in alone}


def slice_lengths(observations: Observations) -> str:
    """The shortest and longest of the programs' usual slices in words: "5 ms", "5 to 30 ms". O(rows)."""
    walls = {r.trial: r.value for r in observations.rows if r.metric == "wall"}
    found: dict[str, list[float]] = defaultdict(list)
    for row in observations.rows:
        if row.metric == SLICES and row.trial in walls:
            found[row.workload].append(1000 * walls[row.trial] / row.value)
    usual = sorted(round(median(lengths)) for lengths in found.values())
    return f"{usual[0]} ms" if usual[0] == usual[-1] else f"{usual[0]} to {usual[-1]} ms"


def ratios_apart(tables: Sequence[Table], baseline: str, settings: Settings) -> list[Apart]:
    """Where the ratio in slices differs from that of whole trials beyond the margin of time and beyond chance.

    Welch's interval for the difference of two means of paired differences, with Bonferroni's correction for all that are
    looked at: one false alarm in twenty experiments. O(tables x treatments x blocks).
    """
    sliced, alone = (_by_workload(tables, metric) for metric in (settings.time_metric, settings.time_metric + ALONE))
    pairs = [
        (sliced[w], alone[w], t)
        for w in sliced
        if w in alone and min(len(sliced[w].values), len(alone[w].values)) > 1
        for t in sliced[w].labels
        if t in alone[w].labels and baseline in alone[w].labels and t != baseline
    ]
    found = []
    for in_slices, whole, treatment in pairs:
        one, other = (_differences(table, treatment, baseline) for table in (in_slices, whole))
        variances = [float(d.var(ddof=1)) / len(d) for d in (one, other)]
        error = math.sqrt(sum(variances))
        if error == 0:
            continue
        df = error**4 / sum(v**2 / (len(d) - 1) for v, d in zip(variances, (one, other), strict=True))
        apart, reach = float(one.mean() - other.mean()), error * t_quantile(1 - 0.025 / len(pairs), df)
        if abs(apart) > max(reach, math.log1p(settings.margin_time)):
            ratios = (exp_capped(x) for x in (one.mean(), other.mean(), apart - reach, apart + reach))
            found.append(Apart(in_slices.workload, treatment, *ratios))
    return found


def _by_workload(tables: Sequence[Table], metric: str) -> dict[str, Table]:
    return {t.workload: t for t in tables if t.metric == metric and (t.values > 0).all()}


def _mean(table: Table, label: str) -> float:
    return float(np.log(table.values[:, table.labels.index(label)]).mean())


def _differences(table: Table, label: str, baseline: str) -> np.ndarray:
    logs = np.log(table.values)
    return logs[:, table.labels.index(label)] - logs[:, table.labels.index(baseline)]

# SPDX-License-Identifier: Apache-2.0
"""Two experiments against each other, each through its own baseline: values of different days are never compared."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..model.analysis import Interval
from ..model.metrics import metric_named
from ..model.observations import Observations
from .quantiles import t_quantile
from .satterthwaite import satterthwaite
from .scale import margin_of, scale_for
from .tables import Table, tables


@dataclass(frozen=True, slots=True)
class Change:
    """A treatment's ratio to the baseline then and now, and the ratio of these two with its interval.

    `verdict` is about the ratio of ratios: "changed" (corrected for the number of comparisons), "same" within the margin
    of the metric, or "undecided".
    """

    workload: str
    metric: str
    treatment: str
    before: Interval
    after: Interval
    change: Interval
    verdict: str


def changes(before: Observations, after: Observations, metrics: tuple[str, ...]) -> list[Change]:
    """Every treatment on every workload that both experiments measured, in the order of the second. O(rows).

    Ratios are formed within blocks on the log scale; their difference gets Welch's interval, since the two experiments
    need not be equally noisy or long. One block on either side bounds nothing.
    """
    earlier = {(t.workload, t.metric): t for t in tables(before)}
    pairs = [
        (other, table, label)
        for table in tables(after)
        if table.metric in metrics and (other := earlier.get((table.workload, table.metric))) is not None
        for label in table.labels
        if label in other.labels and label not in (after.baseline, after.control)
    ]
    return [_change(*pair, before, after, len(pairs)) for pair in pairs]


def _change(earlier: Table, later: Table, label: str, before: Observations, after: Observations, family: int) -> Change:
    confidence = after.settings.confidence
    then = _log_ratios(earlier, label, before.baseline)
    now = _log_ratios(later, label, after.baseline)
    variances = [float(r.var(ddof=1)) / len(r) if len(r) > 1 else math.nan for r in (then, now)]
    total = sum(variances)
    difference = float(now.mean() - then.mean())
    df = satterthwaite(variances, [len(then) - 1, len(now) - 1])
    together = _interval(difference, total, df, 1 - (1 - confidence) / family)
    equal = _interval(difference, total, df, 2 * confidence - 1)
    margin = margin_of(metric_named(later.metric), after.settings)
    if 1 / (1 + margin) <= equal.low and equal.high <= 1 + margin:
        verdict = "same"
    else:
        verdict = "changed" if together.low > 1 or together.high < 1 else "undecided"
    return Change(
        later.workload,
        later.metric,
        label,
        _interval(float(then.mean()), variances[0], len(then) - 1, confidence),
        _interval(float(now.mean()), variances[1], len(now) - 1, confidence),
        _interval(difference, total, df, confidence),
        verdict,
    )


def _log_ratios(table: Table, label: str, baseline: str) -> np.ndarray:
    y = scale_for(metric_named(table.metric), table.values).forward(table.values)
    return y[:, table.labels.index(label)] - y[:, table.labels.index(baseline)]


def _interval(difference: float, variance: float, df: int, confidence: float) -> Interval:
    if math.isnan(variance) or df < 1:
        half = math.inf
    else:
        half = t_quantile((1 + confidence) / 2, df) * math.sqrt(variance)
    return Interval(*(math.exp(min(x, 709.0)) for x in (difference, difference - half, difference + half)))

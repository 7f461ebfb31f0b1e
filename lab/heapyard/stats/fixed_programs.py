# SPDX-License-Identifier: Apache-2.0
"""Treatments over several workloads that are fixed: these programs, or these levels, and no others.

Per treatment the mean over workloads of the mean within-block difference of logs. Only the noise of trials makes it
uncertain: its variance is the sum over the P workloads of their own variances, over P^2. How much workloads disagree
does not enter, since no other workload is spoken of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..model.analysis import Interval
from .contrasts import POOLED, Contrast, Contrasts, Moments, holm, in_errors, interval_about
from .quantiles import dunnett_quantile, dunnett_sf, t_quantile, t_two_sided, tukey_quantile
from .satterthwaite import satterthwaite

Columns = Sequence[int]


class FixedPrograms:
    """Inference over the `parts`, one table per workload; column i of `places[p]` is treatment i in part p.

    Each part brings the variance that suits it: the model's mean square where treatments scatter alike, else each pair's
    own. Simultaneous statements are Dunnett's and Tukey's where all parts scatter alike (equal correlations), else
    Bonferroni's and Holm's, which hold whatever the correlation.
    """

    def __init__(self, parts: Sequence[Contrasts], places: Sequence[Columns], *, confidence: float):
        self.parts, self.places, self.confidence = tuple(parts), tuple(places), confidence
        self.columns = tuple(range(len(self.places[0])))
        self.rounds = min(part.fit.blocks for part in self.parts)  # of all workloads together
        self.pooled = all(part.method == POOLED for part in self.parts)
        self.column_means = np.mean(
            [part.fit.means[list(place)] for part, place in zip(self.parts, self.places, strict=True)], axis=0
        )

    def without(self, end: int) -> FixedPrograms:
        """The first `end` treatments alone, with the same noise."""
        return FixedPrograms(self.parts, [place[:end] for place in self.places], confidence=self.confidence)

    def effects(self, base: int, others: Columns) -> NDArray[np.float64]:
        """Differences of mean logs from treatment `base`, workloads x `others`."""
        return np.array([m.mean for m in self._moments(others, [base] * len(others))])

    def against(self, base: int, others: Columns, *, family: int | None = None) -> list[Contrast]:
        """Each of `others` against `base`, as Contrasts.against; `sd` is that of one round over all workloads. O(P k)."""
        if not others:
            return []
        moments = self._moments(others, [base] * len(others))
        alpha = 1 - self.confidence
        found = []
        for i in range(len(others)):
            d = float(np.mean([m.mean[i] for m in moments]))
            own, own_df = self._single_error(moments, i)
            wide, df = self._error([m.wide[i] for m in moments], [m.df for m in moments])
            t = in_errors(np.array([d]), np.array([wide]))
            if family is None and self.pooled:
                p = float(dunnett_sf(t, len(others), df)[0])
                critical = dunnett_quantile(self.confidence, len(others), df)
            else:
                count = family or len(others)
                p = min(1.0, count * float(t_two_sided(t, df)[0]))
                critical = t_quantile(1 - alpha / (2 * count), df)
            single, double = (
                interval_about(d, t_quantile(1 - tail, own_df), own) for tail in (alpha / 2, alpha)
            )
            found.append(Contrast(d, wide * math.sqrt(self.rounds), single, double, interval_about(d, critical, wide), p))
        return found

    def differs(self) -> NDArray[np.bool_]:
        """All pairs of treatments: True where the two differ, family-wise error 1 - confidence. O(P k^2)."""
        k = len(self.columns)
        none = np.zeros((k, k), dtype=bool)
        if k < 2:
            return none
        first, second = np.triu_indices(k, 1)
        moments = self._moments(first.tolist(), second.tolist())
        mean = np.mean([m.mean for m in moments], axis=0)
        known = [self._error([m.wide[i] for m in moments], [m.df for m in moments]) for i in range(len(first))]
        t = in_errors(mean, np.array([error for error, _ in known]))
        if self.pooled:
            limits = np.array([tukey_quantile(self.confidence, k, df) for _, df in known])
            rejected = math.sqrt(2) * np.abs(t) > limits
        else:
            p = [float(t_two_sided(one, df)) for one, (_, df) in zip(t, known, strict=True)]
            rejected = holm(np.array(p), alpha=1 - self.confidence)
        none[first, second] = none[second, first] = rejected
        return none

    def _single_error(self, moments: Sequence[Moments], i: int) -> tuple[float, int]:
        """Of the mean of pair i over several workloads: from its moderated variances, for few blocks of one workload would
        else decide the width alone. Of one workload: the pair's own, as Contrasts has it."""
        if len(moments) == 1:
            return self._error([moments[0].own[i]], [self.parts[0].fit.blocks - 1])
        return self._error([m.drawn[i] for m in moments], [m.drawn_df for m in moments])

    def shares(self, base: int, others: Columns) -> NDArray[np.float64]:
        """Which share of the variance (summed over `others`) each workload brings: more trials help most at the largest."""
        variances = np.array([float((m.wide**2).sum()) for m in self._moments(others, [base] * len(others))])
        total = variances.sum()
        return variances / total if total > 0 else np.full(len(variances), 1 / len(variances))

    def _moments(self, first: Columns, second: Columns) -> list[Moments]:
        return [
            part.moments([place[i] for i in first], [place[i] for i in second])
            for part, place in zip(self.parts, self.places, strict=True)
        ]

    def _error(self, errors: Sequence[float], dfs: Sequence[int]) -> tuple[float, int]:
        """Standard error of the mean over workloads, and its degrees of freedom (0: not known)."""
        variances = [float(e) ** 2 for e in errors]
        df = satterthwaite(variances, dfs)
        return (math.sqrt(sum(variances)) / len(variances) if df else math.nan), df


def excess(interval: Interval, other: Interval) -> float:
    """By which factor two ratios are shown to differ at least: that between the near ends; 1 where they overlap."""
    if not all(map(math.isfinite, (interval.ratio, other.ratio))) or min(interval.high, other.high) <= 0:
        return 1.0
    return max(1.0, interval.low / other.high, other.low / interval.high)

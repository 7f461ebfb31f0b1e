# SPDX-License-Identifier: Apache-2.0
"""Pairs of treatments within a table of blocks: each against the baseline, and all against all.

Two estimates of the noise stand ready. Where all treatments scatter alike, simultaneous statements use the block
model's mean square (Dunnett, Tukey). Where they do not (peak memory is exact under one allocator and noisy under
another) a pooled mean square would call the noisy ones different and miss the quiet ones. Each pair then has its own
standard deviation, moderated by those of the others, with Bonferroni's and Holm's corrections. The interval of a single
pair always rests on that pair's own differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..model.analysis import Interval
from .block_model import ROUNDING, BlockFit, fit, scatter_differs
from .moderated import moderated
from .quantiles import dunnett_quantile, dunnett_sf, t_quantile, t_two_sided, tukey_quantile

POOLED, MODERATED = "t", "moderated t"
# Level of the preliminary test for unequal scatter; liberal, because pooling wrongly costs more than not pooling.
# tests/lab/test_stats_moderated.py has error rates and power of both methods, docs/measured/method.md the table.
SCATTER_LEVEL = 0.25


@dataclass(frozen=True, slots=True)
class Contrast:
    """One treatment against another: `difference` of mean logs, `sd` of within-block differences, intervals as ratios.

    `tost` is the interval of the equivalence test, at confidence 1 - 2 alpha.
    """

    difference: float
    sd: float
    pair: Interval
    tost: Interval
    simultaneous: Interval
    p_value: float


@dataclass(frozen=True, slots=True)
class Moments:
    """Of some pairs: `mean` and `sd` of the within-block differences of logs; standard errors of the mean: the pair's `own`,
    that one `drawn` towards the others' (of `drawn_df` degrees of freedom), and the one that simultaneous statements rest on
    (`wide`, of `df`). NaN with one block."""

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    own: NDArray[np.float64]
    drawn: NDArray[np.float64]
    drawn_df: int
    wide: NDArray[np.float64]
    df: int


class Contrasts:
    """Inference on one table `y` (ln response, blocks x treatments); `columns` take part in all-pairs statements."""

    def __init__(self, y: NDArray[np.float64], columns: Sequence[int], *, confidence: float):
        self.fit: BlockFit = fit(y)
        self.columns = tuple(columns)
        self.confidence = confidence
        self.method = MODERATED if scatter_differs(self.fit.residuals, level=SCATTER_LEVEL) else POOLED

    @cached_property
    def _pooled_error(self) -> float:
        """Standard error of a difference of two means from the model's mean square; NaN with one block."""
        return math.sqrt(2 * self.fit.mean_square / self.fit.blocks)

    @property
    def column_means(self) -> NDArray[np.float64]:
        return self.fit.means[list(self.columns)]

    def pair_half_width(self) -> float:
        """Half-width of a typical 95 % interval of one ratio, as ratio minus one; inf with one block."""
        if self.fit.df == 0:
            return math.inf
        half = t_quantile((1 + self.confidence) / 2, self.fit.blocks - 1) * self._pooled_error
        return math.expm1(min(half, 700.0))

    def moments(self, first: Sequence[int], second: Sequence[int]) -> Moments:
        """Of the differences of columns `first` minus `second`, pair by pair. O(blocks x pairs)."""
        blocks = self.fit.blocks
        differences = self.fit.y[:, list(first)] - self.fit.y[:, list(second)]
        mean = differences.mean(axis=0)
        mean[np.abs(mean) < ROUNDING] = 0.0
        sd = differences.std(axis=0, ddof=1) if blocks > 1 else np.full(len(mean), math.nan)
        sd[sd < ROUNDING] = 0.0
        own = sd / math.sqrt(blocks)
        variances, drawn_df = moderated(sd**2, blocks - 1)
        drawn = np.sqrt(variances / blocks)
        if self.method == MODERATED:
            return Moments(mean, sd, own, drawn, drawn_df, drawn, drawn_df)
        return Moments(mean, sd, own, drawn, drawn_df, np.full(len(mean), self._pooled_error), self.fit.df)

    def against(self, base: int, others: Sequence[int], *, family: int | None = None) -> list[Contrast]:
        """Each of `others` against `base`. The simultaneous statements hold together for all of `others`, by Dunnett
        or, with unequal scatter, Bonferroni; given `family`, for that many independent contrasts elsewhere instead
        (Bonferroni)."""
        if not others:
            return []
        blocks = self.fit.blocks
        m = self.moments(others, [base] * len(others))
        alpha = 1 - self.confidence
        t = in_errors(m.mean, m.wide)
        if family is None and self.method == POOLED:
            p, critical = dunnett_sf(t, len(others), m.df), dunnett_quantile(self.confidence, len(others), m.df)
        else:
            count = family or len(others)
            p, critical = np.minimum(1.0, count * t_two_sided(t, m.df)), t_quantile(1 - alpha / (2 * count), m.df)
        single, double = t_quantile(1 - alpha / 2, blocks - 1), t_quantile(1 - alpha, blocks - 1)
        return [
            Contrast(
                float(d),
                float(s),
                interval_about(d, single, se),
                interval_about(d, double, se),
                interval_about(d, critical, wide),
                float(pv),
            )
            for d, s, se, wide, pv in zip(m.mean, m.sd, m.own, m.wide, p, strict=True)
        ]

    def differs(self) -> NDArray[np.bool_]:
        """All pairs of `columns`: True where the two differ with the family-wise error held at 1 - confidence.

        Tukey's HSD from the model's mean square; with unequal scatter Holm's procedure on moderated t-tests. O(b k^2).
        """
        k = len(self.columns)
        none = np.zeros((k, k), dtype=bool)
        if k < 2 or self.fit.df == 0:
            return none
        first, second = np.triu_indices(k, 1)
        columns = np.array(self.columns)
        m = self.moments(columns[first].tolist(), columns[second].tolist())
        t = in_errors(m.mean, m.wide)
        if self.method == POOLED:
            rejected = math.sqrt(2) * np.abs(t) > tukey_quantile(self.confidence, k, m.df)
        else:
            rejected = holm(t_two_sided(t, m.df), alpha=1 - self.confidence)
        none[first, second] = none[second, first] = rejected
        return none


def holm(p: NDArray[np.float64], *, alpha: float) -> NDArray[np.bool_]:
    """Which hypotheses Holm's step-down procedure rejects. O(n log n)."""
    order = np.argsort(p, kind="stable")
    passed = p[order] <= alpha / np.arange(len(p), 0, -1)
    rejected = np.zeros(len(p), dtype=bool)
    rejected[order[: len(p) if passed.all() else int(np.argmin(passed))]] = True
    return rejected


def in_errors(difference: NDArray[np.float64], error: NDArray[np.float64]) -> NDArray[np.float64]:
    """difference / error, where no error at all makes any difference certain; 0 where the error is unknown."""
    known = np.nan_to_num(error, nan=math.inf)
    t = np.divide(difference, known, out=np.zeros_like(difference), where=known > 0)
    return np.where((known == 0) & (difference != 0), np.copysign(math.inf, difference), t)


def interval_about(difference: float, critical: float, error: float) -> Interval:
    half = critical * error if error > 0 else 0.0 if error == 0 else math.inf
    return Interval(exp_capped(difference), exp_capped(difference - half), exp_capped(difference + half))


def exp_capped(x: float) -> float:
    """exp without overflow: beyond the largest double it is infinite."""
    return math.exp(x) if x < 709 else math.inf

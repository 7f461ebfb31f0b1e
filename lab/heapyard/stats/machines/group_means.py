# SPDX-License-Identifier: Apache-2.0
"""Means of groups of blocks over workloads that are fixed, and the F test that they are equal.

A workload brings one number per block: the difference of two logs within it, or its mean. A group is a machine or a kind of
machine. Where groups scatter alike, each workload has one variance within groups, and with one workload the test is the
one-way analysis of variance. Where they do not (a CPU quota makes one machine noisy), each group has its own (Welch,
"On the comparison of several mean values", Biometrika 38, 1951).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..block_model import ROUNDING
from ..contrasts import SCATTER_LEVEL
from ..diagnostics import levene_p
from ..quantiles import t_quantile
from ..satterthwaite import MOST, satterthwaite, satterthwaite_of_two

Array = NDArray[np.float64]
Groups = NDArray[np.intp]
F, WELCH = "F", "Welch"
LEAST_OWN = 3  # blocks of a group on each workload, from which on it may have a variance of its own


@dataclass(frozen=True, slots=True)
class GroupMeans:
    """`mean` and its `variance` by group; `dfs` of these variances; `df` of all together, where they scatter alike."""

    mean: Array
    variance: Array
    dfs: tuple[int, ...]
    df: int
    method: str

    def error(self, one: int, other: int) -> tuple[float, int]:
        """Standard error of the difference of two groups, and its degrees of freedom (0: not known)."""
        variances = [float(self.variance[one]), float(self.variance[other])]
        df = self.df if self.method == F else satterthwaite(variances, [self.dfs[one], self.dfs[other]])
        return (math.sqrt(sum(variances)) if df else math.nan), df


@dataclass(frozen=True, slots=True)
class FTest:
    """`p` is 1 where the data leave no degrees of freedom."""

    f: float
    df: float
    error_df: float
    p: float


@dataclass(frozen=True, slots=True)
class Apart:
    """Two groups, `high` above `low` by `difference`; an interval at `low_end`, `high_end`, which holds for `family` others too."""

    high: int
    low: int
    difference: float
    low_end: float
    high_end: float


def group_means(values: Sequence[Array], groups: Sequence[Groups], count: int) -> GroupMeans:
    """Each of `count` groups has a block on every workload; workloads count alike. O(blocks)."""
    means, pooled, own, sizes, scaled = [], [], [], [], []
    for y, group in zip(values, groups, strict=True):
        size = np.bincount(group, minlength=count)
        mean = np.bincount(group, y, minlength=count) / size
        left = y - mean[group]
        left[np.abs(left) < ROUNDING] = 0.0
        squares = np.bincount(group, left**2, minlength=count)
        df = len(y) - count
        variance = float(squares.sum()) / df if df else math.nan
        means.append(mean)
        sizes.append(size)
        pooled.append((variance, df))
        own.append(squares / np.maximum(size - 1, 1))
        # A residual of a small group is small: the group's mean has followed it.
        room = np.sqrt(variance * (1 - 1 / size))[group]
        scaled.append(np.divide(left, room, out=np.zeros_like(left), where=room > 0))
    size, mean, weight = np.array(sizes), np.mean(means, axis=0), 1 / len(values) ** 2
    if count > 1 and size.min() >= LEAST_OWN:
        unequal = levene_p(np.concatenate(scaled), np.concatenate(list(groups)).tolist()) < SCATTER_LEVEL
    else:
        unequal = False
    if unequal:
        parts = np.array(own) / size
        dfs = tuple(satterthwaite(parts[:, g].tolist(), (size[:, g] - 1).tolist()) for g in range(count))
        return GroupMeans(mean, weight * parts.sum(axis=0), dfs, min(dfs), WELCH)
    variances, within = [v for v, _ in pooled], [df for _, df in pooled]
    parts = np.array(variances)[:, None] / size
    df = satterthwaite([float(p) for p in parts.mean(axis=1)], within)
    return GroupMeans(mean, weight * parts.sum(axis=0), (df,) * count, df, F)


def f_test(found: GroupMeans) -> FTest:
    """That all groups have one mean. O(groups)."""
    from scipy.special import fdtrc

    count = len(found.mean)
    if count < 2 or found.df < 1 or not np.isfinite(found.variance).all():
        return FTest(math.nan, count - 1, found.df, 1.0)
    if (found.variance == 0).any():
        equal = float(np.ptp(found.mean)) < ROUNDING
        return FTest(0.0 if equal else math.inf, count - 1, found.df, 1.0 if equal else 0.0)
    weight = 1 / found.variance
    share = weight / weight.sum()
    f = float((weight * (found.mean - float(share @ found.mean)) ** 2).sum()) / (count - 1)
    error_df = float(found.df)
    if found.method == WELCH:
        excess = float(((1 - share) ** 2 / np.array(found.dfs)).sum())
        f /= 1 + 2 * (count - 2) / (count**2 - 1) * excess
        error_df = (count**2 - 1) / (3 * excess)
    return FTest(f, count - 1, error_df, float(fdtrc(count - 1, error_df, f)))


def farthest(found: GroupMeans, *, confidence: float, family: int = 1) -> Apart:
    """The two groups whose means lie farthest apart, with an interval that holds for all pairs of groups and for `family` such
    comparisons together (Bonferroni). O(groups^2)."""
    count = len(found.mean)
    high, low = int(found.mean.argmax()), int(found.mean.argmin())
    error, df = found.error(high, low)
    tail = (1 - confidence) / (2 * max(1, family * count * (count - 1) // 2))
    difference = float(found.mean[high] - found.mean[low])
    half = t_quantile(1 - tail, df) * error if df and error > 0 else 0.0 if error == 0 else math.inf
    return Apart(high, low, difference, difference - half, difference + half)


def all_alike(found: GroupMeans, *, margin: float, confidence: float) -> bool:
    """Whether any two groups are shown to differ by at most `margin` on the log scale. All pairs must pass, each by two
    one-sided tests at full level: an intersection-union test. O(groups^2), in array operations."""
    order = np.argsort(-np.abs(found.mean - np.median(found.mean)))  # what fails does so at once
    mean, variance, dfs = found.mean[order], found.variance[order], np.array(found.dfs)[order]
    quantiles = _quantiles(confidence)
    for one in range(len(mean) - 1):
        rest = slice(one + 1, None)
        if found.method == F:
            df = np.full(len(mean) - one - 1, found.df)
        else:
            df = satterthwaite_of_two(variance[one], dfs[one], variance[rest], dfs[rest])
        reach = quantiles[df] * np.sqrt(variance[one] + variance[rest])
        if not (np.where(df > 0, np.abs(mean[rest] - mean[one]) + reach, math.inf) <= margin).all():
            return False
    return True


@cache
def _quantiles(confidence: float) -> Array:
    """Of Student's t, by degrees of freedom from 0 (inf) to the MOST that Satterthwaite's are."""
    return np.array([t_quantile(confidence, df) for df in range(MOST + 1)])

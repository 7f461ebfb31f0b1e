# SPDX-License-Identifier: Apache-2.0
"""Treatments ranked over many workloads: Friedman's test, Nemenyi's critical difference, and groups by pairs.

Demsar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7 (2006). Whether two treatments differ
by Nemenyi's test depends on which others are in the pool (Benavoli, Corani and Mangili, JMLR 17, 2016), so the groups
come from signed-rank tests of each pair with Holm's correction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .contrasts import holm
from .design_matrix import Array
from .factorial import average_ranks
from .letters import compact_letters
from .quantiles import tukey_quantile
from .sign_flip import sign_flip_p

_INFINITE_DF = 10**7  # Nemenyi's quantile is that of known variance


@dataclass(frozen=True, slots=True)
class RankTest:
    """`ranks`: mean rank per treatment, 1 for the least. `p`: of Friedman's hypothesis that none differs, by Iman and
    Davenport's F, which is less conservative than the `chi_squared`. `critical_difference`: of mean ranks, by Nemenyi.
    `letters`: treatments that share one are not distinguishable by paired signed-rank tests."""

    ranks: Array
    chi_squared: float
    p: float
    critical_difference: float
    letters: tuple[str, ...]


def least_signed_rank_p(workloads: int) -> float:
    """The least p that a signed-rank test of one pair can give: all differences of one sign, 2 of 2^workloads patterns."""
    return 2.0 ** (1 - workloads) if workloads else 1.0


def can_tell_pairs(workloads: int, treatments: int, *, confidence: float = 0.95) -> bool:
    """Whether any outcome at all would let Holm's procedure over all pairs of `treatments` reject one."""
    pairs = treatments * (treatments - 1) // 2
    return pairs > 0 and workloads > 1 and least_signed_rank_p(workloads) <= (1 - confidence) / pairs


def rank_test(table: ArrayLike, *, confidence: float = 0.95) -> RankTest:
    """`table`: workloads x treatments, one mean each. ValueError with fewer than two of either.

    O(k^2 times the cost of `sign_flip_p`).
    """
    from scipy.special import fdtrc
    from scipy.stats import rankdata

    y = np.asarray(table, dtype=float)
    workloads, k = y.shape
    if workloads < 2 or k < 2:
        raise ValueError("ranks need two workloads and two treatments")
    within = rankdata(y, axis=1)
    ranks = average_ranks(y, 1)
    spread = float(((within - (k + 1) / 2) ** 2).sum())  # ties make it smaller
    chi = (k - 1) * workloads**2 * float(((ranks - (k + 1) / 2) ** 2).sum()) / spread if spread else 0.0
    left = workloads * (k - 1) - chi
    f = (workloads - 1) * chi / left if left > 1e-9 else math.inf
    p = float(fdtrc(k - 1, (k - 1) * (workloads - 1), f)) if math.isfinite(f) else 0.0
    critical = tukey_quantile(confidence, k, _INFINITE_DF) * math.sqrt(k * (k + 1) / (12 * workloads))
    first, second = np.triu_indices(k, 1)
    differences = (y[:, i] - y[:, j] for i, j in zip(first, second, strict=True))
    # Flipped signs of signed ranks: Wilcoxon's test, exact with ties too; equal pairs tell nothing and are left out.
    p_pairs = np.array([sign_flip_p(np.sign(d) * rankdata(np.abs(d))) for d in (d[d != 0] for d in differences)])
    differs = np.zeros((k, k), dtype=bool)
    differs[first, second] = differs[second, first] = holm(p_pairs, alpha=1 - confidence)
    letters = compact_letters(differs, [int(i) for i in np.argsort(ranks, kind="stable")])
    return RankTest(ranks, chi, p, critical, tuple(letters))

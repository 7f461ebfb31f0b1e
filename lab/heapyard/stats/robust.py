# SPDX-License-Identifier: Apache-2.0
"""A second opinion that assumes symmetry, not normality: Hodges-Lehmann ratio and exact signed-rank interval."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from ..model.analysis import Interval

_EXACT_UP_TO = 200  # blocks; beyond, the normal approximation is off by less than a rank


def hodges_lehmann(differences: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Ratio from within-block differences of logs: the median of all pairwise averages, and the interval that inverts
    Wilcoxon's signed-rank test. (0, inf) as limits when blocks are too few for `confidence` (six for 95 %).
    """
    d = np.asarray(differences, dtype=float)
    first, second = np.triu_indices(len(d))
    walsh = np.sort((d[first] + d[second]) / 2)
    centre = float(np.exp(np.median(walsh)))
    skip = _rank_to_skip(len(d), confidence)
    if skip is None:
        return Interval(centre, 0.0, math.inf)
    return Interval(centre, float(np.exp(walsh[skip])), float(np.exp(walsh[len(walsh) - 1 - skip])))


@cache
def _rank_to_skip(count: int, confidence: float) -> int | None:
    """Walsh averages to leave out at either end: the largest w with P(W+ <= w) <= alpha/2; None if there is none."""
    alpha = 1 - confidence
    if count > _EXACT_UP_TO:
        from scipy.special import ndtri

        mean, variance = count * (count + 1) / 4, count * (count + 1) * (2 * count + 1) / 24
        return int(mean + float(ndtri(alpha / 2)) * math.sqrt(variance))
    # Number of subsets of ranks 1..n with a given sum, as probabilities: one convolution per rank.
    probability = np.ones(1)
    for rank in range(1, count + 1):
        shifted = np.zeros(len(probability) + rank)
        shifted[: len(probability)] += probability / 2
        shifted[rank:] += probability / 2
        probability = shifted
    # How many rank sums w have P(W+ <= w) <= alpha/2.
    outside = int(np.searchsorted(np.cumsum(probability), alpha / 2, side="right"))
    return outside - 1 if outside else None

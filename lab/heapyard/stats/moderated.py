# SPDX-License-Identifier: Apache-2.0
"""Moderated variances: few blocks tell each pair's variance badly, and all pairs of a program together tell it better.

Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray experiments" (2004),
sections 3 and 6.2: true variances are taken as scaled inverse chi-square about a common one, whose degrees of freedom come
from how much the logarithms of the estimates scatter beyond chance. Each estimate is drawn towards the common one by so much.
The common one here is the geometric mean of the true variances. Smyth's is smaller where they scatter, so ours is cautious.
Where the variances truly differ (memory is exact under one allocator and noisy under another), almost nothing is drawn.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

# The common variance weighs at most so many degrees of freedom. Pairs share the baseline, so their estimates scatter less than
# independent ones, and more weight would be believed than is there. tests/lab/test_stats_moderated.py has the error rates.
MOST_PRIOR_DF = 3.0
_FEWEST = 3  # estimates that say how much they scatter


def moderated(variances: NDArray[np.float64], df: int) -> tuple[NDArray[np.float64], int]:
    """The estimates (of `df` degrees of freedom each), drawn together; and their degrees of freedom, rounded down. O(n)."""
    if len(variances) < _FEWEST or df < 1 or not np.all(variances > 0):
        return variances, df
    logs = np.log(variances)
    chance = float(polygamma(1, df / 2))  # variance of the logarithm of an estimate
    prior = min(MOST_PRIOR_DF, 2 * _inverse_trigamma(float(logs.var(ddof=1)) - chance))
    # The last term: the exponential of a mean of few logarithms is too large.
    common = math.exp(float(logs.mean()) - float(digamma(df / 2)) + math.log(df / 2) - chance / (2 * len(logs)))
    return (prior * common + df * variances) / (prior + df), math.floor(prior + df)


def _inverse_trigamma(value: float) -> float:
    """x with trigamma(x) = value, by Newton's method as in Smyth's appendix; inf where no scatter is left to explain."""
    if value <= 0:
        return math.inf
    x = 0.5 + 1 / value
    for _ in range(50):
        tri = float(polygamma(1, x))
        step = tri * (1 - tri / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x

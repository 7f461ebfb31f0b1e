# SPDX-License-Identifier: Apache-2.0
"""Hodges-Lehmann and the signed-rank interval against scipy's Wilcoxon test and brute force."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from heapyard.stats.robust import hodges_lehmann


def test_estimate_is_the_median_of_pairwise_averages():
    d = [0.1, -0.3, 0.25, 0.7]
    averages = [(d[i] + d[j]) / 2 for i in range(4) for j in range(i, 4)]
    assert hodges_lehmann(d).ratio == pytest.approx(math.exp(np.median(averages)))


@pytest.mark.parametrize("count", [6, 7, 10, 15, 25])
def test_interval_inverts_wilcoxons_test(count):
    """Just inside the limits the exact test accepts the shift, just outside it rejects."""
    d = np.random.default_rng(count).normal(0.05, 0.1, count)
    found = hodges_lehmann(d)
    for limit, inward in ((math.log(found.low), 1), (math.log(found.high), -1)):
        inside = stats.wilcoxon(d - (limit + inward * 1e-9), method="exact").pvalue
        outside = stats.wilcoxon(d - (limit - inward * 1e-9), method="exact").pvalue
        assert inside > 0.05 >= outside


def test_five_blocks_are_too_few_for_ninety_five_percent():
    assert hodges_lehmann([0.1, 0.2, 0.3, 0.4, 0.5]).high == math.inf
    six = hodges_lehmann([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert (six.low, six.high) == pytest.approx((math.exp(0.1), math.exp(0.6)))


def test_exact_coverage_over_all_signs():
    """With magnitudes fixed, every sign pattern is equally likely under the null; the interval misses 0 in at most 5
    % of them."""
    magnitudes = np.array([0.11, 0.23, 0.37, 0.41, 0.59, 0.67, 0.83, 0.97])
    missed = 0
    for signs in product((-1, 1), repeat=8):
        found = hodges_lehmann(magnitudes * signs)
        missed += not found.low <= 1 <= found.high
    assert 0.03 < missed / 2**8 <= 0.05


def test_many_blocks_join_the_normal_approximation_smoothly():
    d = np.random.default_rng(3).normal(0, 1, 201)
    whole, fewer = hodges_lehmann(d), hodges_lehmann(d[:200])
    assert math.log(whole.high / whole.low) == pytest.approx(math.log(fewer.high / fewer.low), rel=0.03)


def test_one_wild_trial_does_not_move_it():
    d = np.full(12, 0.02) + np.linspace(-1e-3, 1e-3, 12)
    wild = d.copy()
    wild[-1] = 5.0
    assert hodges_lehmann(wild).ratio == pytest.approx(hodges_lehmann(d).ratio, abs=1e-3)
    assert hodges_lehmann(wild).high < 1.05

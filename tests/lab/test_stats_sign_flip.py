# SPDX-License-Identifier: Apache-2.0
"""The sign-flip test and the p-value of equivalence: other libraries, brute force, error rates."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import ttost_paired

from heapyard.stats.contrasts import Contrasts
from heapyard.stats.equivalence import equivalence_p
from heapyard.stats.sign_flip import sign_flip_p


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_all_sign_patterns_are_counted(count: int) -> None:
    d = np.random.default_rng(count).normal(0.5, 1, count)
    as_far = [abs(np.dot(signs, d)) >= abs(d.sum()) - 1e-12 for signs in product((-1, 1), repeat=count)]
    assert sign_flip_p(d) == pytest.approx(np.mean(as_far))


def test_it_is_scipys_permutation_test() -> None:
    d = np.random.default_rng(3).normal(0.3, 1, 12)
    oracle = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip_p(d) == pytest.approx(oracle.pvalue)


def test_signed_ranks_flipped_are_wilcoxons_test() -> None:
    d = np.random.default_rng(5).normal(0.4, 1, 11)
    signed = np.sign(d) * stats.rankdata(np.abs(d))
    assert sign_flip_p(signed) == pytest.approx(stats.wilcoxon(d, method="exact").pvalue)


def test_many_blocks_are_sampled_and_join_smoothly() -> None:
    d = np.random.default_rng(6).normal(0.25, 1, 40)
    t = stats.ttest_1samp(d, 0).pvalue
    assert sign_flip_p(d) == sign_flip_p(d) == pytest.approx(t, abs=0.01)
    assert sign_flip_p(d + 5) == pytest.approx(1 / 20_001)


def test_one_block_or_none_shows_nothing() -> None:
    assert sign_flip_p([]) == 1.0 and sign_flip_p([0.3]) == 1.0 and sign_flip_p([0.0, 0.0]) == 1.0
    assert sign_flip_p([0.02] * 6) == 2 / 2**6


def test_equal_treatments_are_called_different_in_at_most_one_of_twenty() -> None:
    """Whatever the law of the differences, as long as it is symmetric."""
    rng = np.random.default_rng(8)
    for draw in (rng.standard_normal, rng.standard_cauchy, lambda n: rng.choice([-1, 1], n) * rng.lognormal(size=n)):
        called = np.mean([sign_flip_p(draw(9)) < 0.05 for _ in range(600)])
        assert 0.02 <= called <= 0.075  # 5 % +- 3 standard errors


@pytest.mark.parametrize("seed", range(4))
def test_equivalence_is_that_of_statsmodels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.normal(0, 0.02, (2, 11))
    oracle = ttost_paired(one, other, -math.log(1.03), math.log(1.03))[0]
    assert equivalence_p(one - other, 0.03) == pytest.approx(oracle, rel=1e-9)


def test_equivalence_agrees_with_the_interval() -> None:
    """p below 5 % exactly when the 90 % interval lies within the margin."""
    rng = np.random.default_rng(9)
    seen = set()
    for _ in range(100):
        y = rng.normal(0, 0.015, (8, 2))
        tost = Contrasts(y, range(2), confidence=0.95).against(0, [1])[0].tost
        inside = 1 / 1.02 < tost.low and tost.high < 1.02
        assert (equivalence_p(y[:, 1] - y[:, 0], 0.02) < 0.05) == inside
        seen.add(inside)
    assert seen == {True, False}


def test_equivalence_without_scatter_or_blocks() -> None:
    assert equivalence_p([0.01] * 5, 0.02) == 0.0 and equivalence_p([0.03] * 5, 0.02) == 1.0
    assert equivalence_p([0.0], 0.02) == 1.0

# SPDX-License-Identifier: Apache-2.0
"""Ranks over many workloads: the example of the literature, scipy, and error rates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from heapyard.stats.rank_tests import rank_test

# Demsar 2006, table 6: accuracy of four variants of a classifier on fourteen data sets. Two of the last but one are
# both printed as 0.975, with ranks 2 and 3: its ranks rest on more digits.
ACCURACY = np.array(
    [
        [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970],
    ]
)


def test_the_example_of_the_literature() -> None:
    """Printed there: average ranks 3.143, 2.000, 2.893, 1.964 and a critical difference of 1.25."""
    found = rank_test(-ACCURACY)
    assert found.ranks == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    assert found.critical_difference == pytest.approx(1.25, abs=5e-3)
    assert found.p < 0.05


@pytest.mark.parametrize("seed", range(4))
def test_friedman_is_that_of_scipy_ties_included(seed: int) -> None:
    table = np.random.default_rng(seed).integers(0, 6, (12, 5)).astype(float)
    oracle = stats.friedmanchisquare(*table.T)
    found = rank_test(table)
    assert found.chi_squared == pytest.approx(oracle.statistic)
    f = 11 * oracle.statistic / (12 * 4 - oracle.statistic)
    assert found.p == pytest.approx(stats.f.sf(f, 4, 44))


def test_groups_do_not_depend_on_the_pool_beyond_the_correction() -> None:
    """Two clearly different treatments stay apart whoever else is there."""
    rng = np.random.default_rng(1)
    two = rng.normal(0, 0.01, (16, 2)) + np.array([0.0, 0.1])
    assert set(rank_test(two).letters) == {"a", "b"}
    pool = np.hstack([two, rng.normal(5, 1, (16, 3))])
    letters = rank_test(pool).letters
    assert not set(letters[0]) & set(letters[1])


def test_no_difference_is_called_one_time_in_twenty() -> None:
    rng = np.random.default_rng(3)
    found = [rank_test(rng.normal(size=(12, 4))) for _ in range(400)]
    assert 0.025 <= np.mean([one.p < 0.05 for one in found]) <= 0.08  # 5 % +- 2.5 standard errors
    assert np.mean([len(set(one.letters)) > 1 for one in found]) <= 0.08


def test_all_equal_and_all_ordered() -> None:
    equal = rank_test(np.ones((6, 3)))
    assert equal.p == 1.0 and equal.letters == ("a", "a", "a")
    ordered = rank_test(np.tile([1.0, 2.0, 3.0], (12, 1)))
    assert ordered.p == 0.0 and ordered.ranks.tolist() == [1, 2, 3] and len(set(ordered.letters)) == 3
    with pytest.raises(ValueError, match="two workloads"):
        rank_test(np.ones((1, 3)))

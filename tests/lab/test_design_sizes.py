# SPDX-License-Identifier: Apache-2.0
"""How many blocks, and what they can find."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from heapyard.design.power import blocks_for, detectable_difference, minutes_for, power
from heapyard.design.two_stage import blocks_to_decide, blocks_wanted, expected_duration


def pilot(sd, blocks=6, treatments=5, seed=3):
    """A pilot whose residual mean square is exactly sd squared."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(blocks, treatments))
    residuals = y - y.mean(axis=0) - y.mean(axis=1, keepdims=True) + y.mean()
    scale = sd / math.sqrt((residuals**2).sum() / ((blocks - 1) * (treatments - 1)))
    return scale * residuals + rng.normal(0, 0.3, (blocks, 1)) + np.arange(treatments) * 0.1


@pytest.mark.parametrize("sd", [0.005, 0.01, 0.02, 0.03])
@pytest.mark.parametrize("precision", [0.01, 0.02])
def test_wanted_blocks_are_the_fewest_that_reach_the_precision(sd, precision):
    n = blocks_wanted(pilot(sd), precision=precision, at_most=10_000)

    def half_width(count):
        return math.expm1(stats.t.ppf(0.975, min(20, count - 1)) * sd * math.sqrt(2 / count))

    assert half_width(n) <= precision * (1 + 1e-12)
    assert n == 6 or half_width(n - 1) > precision


def test_wanted_blocks_match_the_textbook_sample_size():
    # With plenty of treatments the noise is as good as known, and the rule is that of a paired t-interval.
    n = blocks_wanted(pilot(0.02, blocks=8, treatments=200), precision=0.02, at_most=1000)
    s = 0.02 * math.sqrt(2)
    assert n == next(k for k in range(8, 1000) if stats.t.ppf(0.975, k - 1) * s / math.sqrt(k) <= math.log(1.02))


def test_wanted_blocks_never_fall_below_the_pilot_nor_exceed_the_cap():
    assert blocks_wanted(pilot(1e-6, blocks=9), precision=0.01) == 9
    assert blocks_wanted(np.ones((4, 3)), precision=0.01) == 4
    assert blocks_wanted(pilot(0.5), precision=0.001, at_most=50) == 50
    assert blocks_wanted(pilot(0.5, blocks=60), precision=0.001, at_most=50) == 60


def test_wanted_blocks_where_the_pilot_says_little():
    assert blocks_wanted(np.ones((1, 5)), precision=0.01, at_most=40) == 40
    assert blocks_wanted(np.ones((7, 1)), precision=0.01) == 7
    broken = np.vstack([pilot(0.02), [math.nan, 1, 1, 1, 1]])
    assert blocks_wanted(broken, precision=0.02) == blocks_wanted(pilot(0.02), precision=0.02)


def test_more_comparisons_want_more_blocks_and_drift_between_blocks_wants_none():
    assert blocks_wanted(pilot(0.02), precision=0.01, comparisons=10) > blocks_wanted(pilot(0.02), precision=0.01)
    drifting = pilot(0.02) + np.linspace(0, 2, 6)[:, None]
    assert blocks_wanted(drifting, precision=0.01) == blocks_wanted(pilot(0.02), precision=0.01)


def test_stein_sizes_cover_whatever_the_noise():
    """The fixed-width interval of the second stage holds the truth in at least 95 % (Stein 1945), and sizes vary."""
    rng = np.random.default_rng(11)
    for sd in (0.01, 0.03):
        inside, sizes = 0, []
        for _ in range(1000):
            first = rng.normal(0, sd, (6, 3))
            n = blocks_wanted(first, precision=0.02, at_most=400)
            y = np.vstack([first, rng.normal(0, sd, (n - 6, 3))])
            inside += abs((y[:, 1] - y[:, 0]).mean()) <= math.log(1.02)
            sizes.append(n)
        assert inside / 1000 >= 0.94
    assert np.std(sizes) > 3


def test_advice_settles_the_verdict_four_times_in_five():
    """Simulated with the advised number of blocks: a true difference is found, or true equality established, in about
    80 %."""
    rng = np.random.default_rng(5)
    for difference, sd in ((0.03, 0.03), (0.0, 0.02)):
        total = 6 + blocks_to_decide(difference, sd, 6, margin=0.02)
        d = rng.normal(difference, sd, (4000, total))
        error = d.std(axis=1, ddof=1) / math.sqrt(total)
        differs = np.abs(d.mean(axis=1)) > stats.t.ppf(0.975, total - 1) * error
        equals = np.abs(d.mean(axis=1)) + stats.t.ppf(0.95, total - 1) * error < math.log(1.02)
        settled = max(differs.mean(), equals.mean())
        assert 0.78 <= settled <= 0.90


def test_advice_is_the_fewest_blocks():
    total = 6 + blocks_to_decide(0.05, 0.05, 6, margin=0.02)
    assert power(math.expm1(0.05), math.sqrt(math.expm1(0.05**2 / 2)), total) >= 0.78
    assert blocks_to_decide(0.05, 0.05, 6, margin=0.02) > blocks_to_decide(0.10, 0.05, 6, margin=0.02)
    assert blocks_to_decide(0.05, 0.05, 6, margin=0.02, comparisons=12) > blocks_to_decide(0.05, 0.05, 6, margin=0.02)


def test_advice_at_the_edges():
    limit = math.log(1.02)
    assert blocks_to_decide(limit, 0.05, 6, margin=0.02) > 10  # on the margin only a difference can be proven
    assert blocks_to_decide(1e-9, 5.0, 6, margin=1e-6) is None
    assert blocks_to_decide(math.nan, 0.1, 6, margin=0.02) is None
    assert blocks_to_decide(0.1, math.nan, 1, margin=0.02) is None
    assert blocks_to_decide(0.1, 0.0, 3, margin=0.02) == 1


@pytest.mark.parametrize("blocks", [3, 6, 10, 30, 200])
@pytest.mark.parametrize("effect", [0.1, 0.3, 1.0])
def test_power_is_that_of_statsmodels(blocks, effect):
    cv = 0.02
    sd = math.sqrt(2 * math.log1p(cv**2))
    expected = TTestPower().power(effect, blocks, 0.05)
    assert power(math.expm1(effect * sd), cv, blocks) == pytest.approx(expected, abs=1e-6)


def test_detectable_difference_and_blocks_invert_the_power():
    found = detectable_difference(0.02, 10)
    assert power(found, 0.02, 10) == pytest.approx(0.8, abs=1e-9)
    n = blocks_for(0.01, 0.02)
    assert power(0.01, 0.02, n) >= 0.8 > power(0.01, 0.02, n - 1)
    assert minutes_for(0.01, 0.02, 12.0) == pytest.approx(n * 12 / 60)


def test_power_at_the_edges():
    assert detectable_difference(0.02, 1) == math.inf
    assert power(0.01, 0.02, 1) == 0
    assert blocks_for(1e-9, 0.5) is None and minutes_for(1e-9, 0.5, 1.0) == math.inf
    assert blocks_for(0.01, 0.0) == 2
    assert power(0.0, 0.02, 10) == pytest.approx(0.05, abs=1e-9)
    assert power(10.0, 0.001, 5) == 1.0


def test_duration_scales_with_the_mean_block():
    assert expected_duration([10.0, 14.0], 5) == 60.0
    assert expected_duration([], 5) == 0.0

# SPDX-License-Identifier: Apache-2.0
"""Moderated variances: what is drawn together and how far; error rates and power beside paired t-tests, by simulation."""

import math

import numpy as np
import pytest
from scipy import special, stats

from heapyard.stats.contrasts import Contrasts
from heapyard.stats.moderated import MOST_PRIOR_DF, moderated
from heapyard.stats.quantiles import t_quantile

NOISE, EFFECT = 0.017, 0.07
SCATTER = {  # of the treatments beside each other, the baseline first
    "equal": lambda k: np.ones(k),
    "one treatment three times as much": lambda k: np.where(np.arange(k) == 1, 3.0, 1.0),
    "two treatments three times as much": lambda k: np.where((np.arange(k) == 1) | (np.arange(k) == 2), 3.0, 1.0),
    "the baseline three times as much": lambda k: np.where(np.arange(k) == 0, 3.0, 1.0),
    "the baseline a third": lambda k: np.where(np.arange(k) == 0, 1 / 3, 1.0),
    "every other one twice as much": lambda k: np.where(np.arange(k) % 2, 2.0, 1.0),
    "one wanders, the others are exact": lambda k: np.where(np.arange(k) == 1, 12.0, 0.1),
}


def simulated(rng, blocks, treatments, scatter, effect=0.0):
    y = rng.normal(0, NOISE, (blocks, treatments)) * SCATTER[scatter](treatments)
    y[:, -1] += effect
    return y


def called(y) -> np.ndarray:
    """Which treatments a report calls different from the baseline: both intervals exclude 1."""
    found = Contrasts(y, range(y.shape[1]), confidence=0.95).against(0, list(range(1, y.shape[1])))
    return np.array([all(not i.low <= 1 <= i.high for i in (x.pair, x.simultaneous)) for x in found])


def called_by_paired_t(y) -> np.ndarray:
    d = y[:, 1:] - y[:, :1]
    t = np.abs(d.mean(axis=0)) / (d.std(axis=0, ddof=1) / math.sqrt(len(y)))
    return t > t_quantile(1 - 0.025 / d.shape[1], len(y) - 1)


def test_the_prior_is_what_the_variances_were_drawn_with():
    """Smyth's model: 1/variance is chi-square of d0 over d0 s0^2. With many variances d0 comes out, and the geometric mean."""
    rng = np.random.default_rng(1)
    for d0 in (0.8, 2.2):
        true = d0 * 0.04 / rng.chisquare(d0, 200_000)
        estimates = true * rng.chisquare(5, len(true)) / 5
        drawn, df = moderated(estimates, 5)
        slope = float(np.ptp(drawn) / np.ptp(estimates))
        assert slope == pytest.approx(5 / (5 + d0), rel=0.03)
        common = float(drawn[0] - slope * estimates[0]) / (1 - slope)
        assert common == pytest.approx(math.exp(np.log(true).mean()), rel=0.05)
        assert df == math.floor(5 + d0)


def test_equal_variances_are_drawn_by_the_most_that_is_believed():
    estimates = np.array([1.0, 1.1, 0.9, 1.05])
    drawn, df = moderated(estimates, 3)
    common = math.exp(np.log(estimates).mean() - special.digamma(1.5) + math.log(1.5) - special.polygamma(1, 1.5) / 8)
    assert df == 3 + MOST_PRIOR_DF
    assert drawn == pytest.approx((MOST_PRIOR_DF * common + 3 * estimates) / (3 + MOST_PRIOR_DF))


@pytest.mark.parametrize("variances", [[4.0, 1.0], [4.0, 0.0, 1.0], [math.nan] * 3])
def test_nothing_is_drawn_where_nothing_can_be_known(variances):
    drawn, df = moderated(np.array(variances), 3)
    assert drawn.tolist() == pytest.approx(variances, nan_ok=True) and df == 3


def test_one_that_wanders_leaves_the_exact_ones_exact():
    """The common variance is a geometric mean, and weighs little where the logarithms scatter much."""
    estimates = np.array([1e-8, 2e-8, 1.5e-8, 4e-2, 1e-8])
    drawn, df = moderated(estimates, 5)
    assert df == 5 and (drawn < 3 * estimates).all() and (drawn > estimates / 1.2).all()


def test_scipys_t_agrees_where_nothing_is_drawn():
    y = np.random.default_rng(3).normal(0, 1, (6, 3))
    p = [stats.ttest_rel(y[:, i], y[:, 0]).pvalue for i in (1, 2)]
    assert (called_by_paired_t(y) == (np.array(p) < 0.025)).all()


@pytest.mark.parametrize("scatter", SCATTER)
def test_equal_allocators_are_rarely_called_different_and_true_differences_more_often_than_by_paired_t(scatter):
    """Three standard errors of a share of 5 % in 500 are 2.9 %."""
    rng = np.random.default_rng(7)
    assert np.mean([called(simulated(rng, 4, 8, scatter)).any() for _ in range(500)]) <= 0.085
    seen = [simulated(rng, 4, 8, scatter, EFFECT) for _ in range(300)]
    gain = np.mean([called(y)[-1] for y in seen]) - np.mean([called_by_paired_t(y)[-1] for y in seen])
    assert gain >= (0.15 if scatter in ("equal", "one treatment three times as much") else -0.02)


@pytest.mark.on_request
@pytest.mark.parametrize("blocks", [4, 6, 10])
def test_the_table_of_docs_measured_method(blocks):
    rng = np.random.default_rng(blocks)
    for scatter in SCATTER:
        cells = []
        for treatments in (4, 8, 13):
            null = [simulated(rng, blocks, treatments, scatter) for _ in range(2000)]
            more = [simulated(rng, blocks, treatments, scatter, EFFECT) for _ in range(1000)]
            rates = [
                f"{100 * np.mean([by(y).any() for y in null]):.1f} / {100 * np.mean([by(y)[-1] for y in more]):.0f} %"
                for by in (called_by_paired_t, called)
            ]
            cells.append(" → ".join(rates))
        print(f"| {blocks} | {scatter} | {' | '.join(cells)} |")

# SPDX-License-Identifier: Apache-2.0
"""Pairs: paired and moderated t, Dunnett, Tukey, Holm and compact letters against scipy, statsmodels and brute force."""

import math
import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

from heapyard.model.analysis import Interval
from heapyard.stats import contrasts
from heapyard.stats.contrasts import MODERATED, POOLED, Contrasts, holm
from heapyard.stats.letters import compact_letters
from heapyard.stats.moderated import moderated
from heapyard.stats.quantiles import dunnett_sf
from heapyard.stats.verdict import verdict


def table(seed, blocks=9, treatments=5, sd=0.02, shift=0.0):
    rng = np.random.default_rng(seed)
    return 2 + rng.normal(0, 0.1, (blocks, 1)) + rng.normal(0, sd, (blocks, treatments)) + shift * np.arange(treatments)


@pytest.fixture
def pooled(monkeypatch):
    monkeypatch.setattr(contrasts, "SCATTER_LEVEL", 0.0)


@pytest.fixture
def own(monkeypatch):
    monkeypatch.setattr(contrasts, "SCATTER_LEVEL", 1.1)


@pytest.mark.parametrize("seed", range(4))
def test_single_intervals_are_paired_t(seed):
    y = table(seed, shift=0.01)
    for i, found in enumerate(Contrasts(y, range(5), confidence=0.95).against(0, [1, 2, 3, 4]), start=1):
        oracle = stats.ttest_rel(y[:, i], y[:, 0])
        wide, narrow = oracle.confidence_interval(0.95), oracle.confidence_interval(0.90)
        assert math.log(found.pair.ratio) == pytest.approx((y[:, i] - y[:, 0]).mean(), abs=1e-12)
        assert (math.log(found.pair.low), math.log(found.pair.high)) == pytest.approx((wide.low, wide.high), abs=1e-9)
        assert (math.log(found.tost.low), math.log(found.tost.high)) == pytest.approx(
            (narrow.low, narrow.high), abs=1e-9
        )
        assert found.sd == pytest.approx((y[:, i] - y[:, 0]).std(ddof=1))


def test_dunnett_is_scipys_where_both_apply():
    """Without blocks, on the degrees of freedom of a one-way layout."""
    rng = np.random.default_rng(4)
    groups = rng.normal(0, 1, (10, 4)) + np.array([0, 0.3, 1.2, -0.9])
    oracle = stats.dunnett(*groups.T[1:], control=groups[:, 0], rng=np.random.default_rng(1))
    pooled_within = math.sqrt(groups.var(axis=0, ddof=1).mean())
    t = (groups.mean(axis=0)[1:] - groups.mean(axis=0)[0]) / (pooled_within * math.sqrt(2 / 10))
    np.testing.assert_allclose(t, oracle.statistic, rtol=1e-12)
    np.testing.assert_allclose(dunnett_sf(t, 3, 36), oracle.pvalue, atol=3e-4)  # scipy's is a Monte-Carlo integral


def test_simultaneous_intervals_and_p_values_agree(pooled):
    for seed in range(6):
        c = Contrasts(table(seed, shift=0.006), range(5), confidence=0.95)
        assert c.method == POOLED
        for found in c.against(0, [1, 2, 3, 4]):
            assert (found.p_value < 0.05) == (not found.simultaneous.low <= 1 <= found.simultaneous.high)


def moderated_t(y, pairs):
    """p-values of pairs by a moderated t, and its degrees of freedom."""
    d = np.array([y[:, i] - y[:, j] for i, j in pairs]).T
    variances, df = moderated(d.var(axis=0, ddof=1), len(y) - 1)
    return 2 * stats.t.sf(np.abs(d.mean(axis=0)) / np.sqrt(variances / len(y)), df), df


def test_own_scatter_uses_bonferroni_on_moderated_t(own):
    y = table(1, shift=0.01)
    c = Contrasts(y, range(5), confidence=0.95)
    assert c.method == MODERATED
    p, df = moderated_t(y, [(i, 0) for i in range(1, 5)])
    assert df > len(y) - 1
    for one, found in zip(p, c.against(0, [1, 2, 3, 4]), strict=True):
        assert found.p_value == pytest.approx(min(1, 4 * one), rel=1e-9)
        assert (found.p_value < 0.05) == (not found.simultaneous.low <= 1 <= found.simultaneous.high)


def test_two_pairs_do_not_tell_how_variances_scatter(own):
    y = table(1, treatments=3, shift=0.01)
    for i, found in enumerate(Contrasts(y, range(3), confidence=0.95).against(0, [1, 2]), start=1):
        assert found.p_value == pytest.approx(min(1, 2 * stats.ttest_rel(y[:, i], y[:, 0]).pvalue), rel=1e-9)


def test_all_pairs_by_tukey_are_scipys_on_block_centred_data(pooled):
    """scipy's one-way Tukey with the error and degrees of freedom replaced by those of the block model."""
    for seed in range(5):
        y = table(seed, shift=0.012)
        c = Contrasts(y, range(5), confidence=0.95)
        for i, j in combinations(range(5), 2):
            q = abs(c.fit.means[i] - c.fit.means[j]) / math.sqrt(c.fit.mean_square / 9)
            assert c.differs()[i, j] == (stats.studentized_range.sf(q, 5, c.fit.df) < 0.05)


def test_all_pairs_with_own_scatter_are_holms(own):
    y = table(2, shift=0.01)
    pairs = list(combinations(range(5), 2))
    rejected = multipletests(moderated_t(y, pairs)[0], method="holm")[0]
    found = Contrasts(y, range(5), confidence=0.95).differs()
    assert [found[p] for p in pairs] == list(rejected)
    assert any(rejected) and not all(rejected)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 0.2), min_size=1, max_size=20))
def test_holm_is_that_of_statsmodels(p):
    assert list(holm(np.array(p), alpha=0.05)) == list(multipletests(p, alpha=0.05, method="holm")[0])


def test_unequal_scatter_is_noticed_and_the_quiet_pair_stays_sharp():
    rng = np.random.default_rng(0)
    y = rng.normal(0, 1e-4, (10, 6))
    y[:, 3] += rng.normal(0, 0.2, 10)  # one allocator's memory wanders, the others' is exact
    y[:, 1] += 0.01
    c = Contrasts(y, range(6), confidence=0.95)
    assert c.method == MODERATED
    quiet, noisy = c.against(0, [1, 3])
    assert quiet.simultaneous.low > 1.009 and noisy.simultaneous.low < 1 < noisy.simultaneous.high


def test_exact_responses_are_certain():
    y = np.log(np.tile([7.0, 7.0, 7.5], (4, 1)))
    same, more = Contrasts(y, range(3), confidence=0.95).against(0, [1, 2])
    assert (same.pair, same.p_value) == (Interval(1, 1, 1), pytest.approx(1, abs=1e-9))
    assert more.p_value == 0 and more.pair.low == more.pair.high == pytest.approx(7.5 / 7)
    assert Contrasts(y, range(3), confidence=0.95).differs().tolist() == [
        [False, False, True],
        [False, False, True],
        [True, True, False],
    ]


def test_one_block_bounds_nothing():
    c = Contrasts(np.array([[1.0, 2.0, 3.0]]), range(3), confidence=0.95)
    assert all(
        (x.pair.low, x.pair.high, x.simultaneous.low, x.p_value) == (0, math.inf, 0, 1) for x in c.against(0, [1, 2])
    )
    assert not c.differs().any() and c.pair_half_width() == math.inf


@st.composite
def patterns(draw):
    k = draw(st.integers(1, 7))
    matrix = np.zeros((k, k), dtype=bool)
    for i, j in combinations(range(k), 2):
        matrix[i, j] = matrix[j, i] = draw(st.booleans())
    return matrix, draw(st.permutations(range(k)))


@settings(max_examples=150, deadline=None)
@given(patterns())
def test_letters_are_shared_exactly_by_those_that_do_not_differ(pattern):
    differs, order = pattern
    check_letters(differs, order)


def check_letters(differs, order):
    letters = [set(re.findall(r"[a-zA-Z]|\(\d+\)", text)) for text in compact_letters(differs, order)]
    for i, j in combinations(range(len(order)), 2):
        assert bool(letters[i] & letters[j]) == (not differs[i, j])
    assert "a" in letters[order[0]]


@pytest.mark.parametrize("unequal", [False, True])
def test_letters_of_very_many_treatments_need_no_ages(unequal):
    """97 treatments of a grid whose scatter differs have more largest sets than could ever be listed."""
    rng = np.random.default_rng(4)
    means, scatter = rng.normal(size=97), rng.uniform(0.1, 3, size=97) if unequal else np.ones(97)
    differs = np.abs(np.subtract.outer(means, means)) > 0.4 * np.hypot.outer(scatter, scatter)
    np.fill_diagonal(differs, val=False)
    check_letters(differs, [int(i) for i in np.argsort(means)])


def test_letters_are_as_few_as_the_textbooks():
    """Means 1..5, neighbours indistinguishable: four letters, each a neighbouring pair."""
    far = np.abs(np.subtract.outer(range(5), range(5))) > 1
    assert compact_letters(far, range(5)) == ["a", "ab", "bc", "cd", "d"]
    assert compact_letters(np.zeros((3, 3), bool), [2, 1, 0]) == ["a", "a", "a"]
    assert compact_letters(~np.eye(3, dtype=bool), [2, 0, 1]) == ["b", "c", "a"]


@pytest.mark.parametrize("seed", range(40))
def test_equivalence_is_that_of_statsmodels(seed):
    y = table(seed, blocks=8, treatments=2, sd=0.012)
    (found,) = Contrasts(y, range(2), confidence=0.95).against(0, [1])
    p = ttost_paired(y[:, 1], y[:, 0], -math.log(1.02), math.log(1.02))[0]
    assert (verdict(found.pair, found.simultaneous, found.tost, margin=0.02, direction="lower") == "equivalent") == (
        p < 0.05
    )


@pytest.mark.parametrize(
    ("simultaneous", "tost", "lower", "higher"),
    [
        (Interval(0.9, 0.85, 0.95), Interval(0.9, 0.86, 0.94), "better", "worse"),
        (Interval(1.1, 1.05, 1.15), Interval(1.1, 1.06, 1.14), "worse", "better"),
        (Interval(1.0, 0.9, 1.1), Interval(1.0, 0.95, 1.05), "undecided", "undecided"),
        (Interval(1.0, 0.9, 1.1), Interval(1.0, 0.99, 1.01), "equivalent", "equivalent"),
        (
            Interval(1.01, 1.005, 1.015),
            Interval(1.01, 1.006, 1.014),
            "equivalent",
            "equivalent",
        ),  # proven, but too small to matter
        (Interval(0.9, 0.0, math.inf), Interval(0.9, 0.0, math.inf), "undecided", "undecided"),
    ],
)
def test_the_four_verdicts(simultaneous, tost, lower, higher):
    assert verdict(simultaneous, simultaneous, tost, margin=0.02, direction="lower") == lower
    assert verdict(simultaneous, simultaneous, tost, margin=0.02, direction="higher") == higher


def test_a_claim_needs_both_intervals():
    apart, over, tost = Interval(0.9, 0.85, 0.95), Interval(0.9, 0.8, 1.01), Interval(0.9, 0.84, 0.96)
    assert verdict(apart, apart, tost, margin=0.02, direction="lower") == "better"
    assert verdict(apart, over, tost, margin=0.02, direction="lower") == "undecided"
    assert verdict(over, apart, tost, margin=0.02, direction="lower") == "undecided"

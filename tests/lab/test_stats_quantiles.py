# SPDX-License-Identifier: Apache-2.0
"""Student, Dunnett and Tukey against scipy.stats, an independent integration, and printed tables."""

import numpy as np
import pytest
from scipy import stats

from heapyard.stats.quantiles import dunnett_quantile, dunnett_sf, t_quantile, t_two_sided, tukey_quantile, tukey_sf


@pytest.mark.parametrize(
    ("treatments", "df", "printed"),
    [(3, 10, 3.877), (3, 20, 3.578), (5, 20, 4.232), (10, 60, 4.646), (2, 5, 3.635), (3, 10**7, 3.314)],
)
def test_studentized_range_matches_the_printed_table(treatments, df, printed):
    assert round(tukey_quantile(0.95, treatments, df), 3) == pytest.approx(printed, abs=1e-9)


@pytest.mark.parametrize(
    ("treatments", "df", "printed"),
    [
        # Two-sided 5 % points of Dunnett's t, treatments without the control (Dunnett 1964, table II).
        (1, 5, 2.57),
        (2, 5, 3.03),
        (3, 5, 3.29),
        (2, 10, 2.57),
        (3, 10, 2.76),
        (5, 20, 2.72),
        (9, 30, 2.86),
        (4, 60, 2.51),
    ],
)
def test_dunnett_matches_the_printed_table(treatments, df, printed):
    # The 1964 table was computed by approximation for more than two treatments; the last digit is off by one at times.
    assert dunnett_quantile(0.95, treatments, df) == pytest.approx(printed, abs=0.0151)


@pytest.mark.parametrize("df", [1, 2, 5, 20, 300])
@pytest.mark.parametrize("treatments", [2, 3, 7, 20])
def test_tukey_tail_is_that_of_scipy(treatments, df):
    for q in (0.5, 2.0, 4.0, 8.0):
        assert float(tukey_sf(q, treatments, df)) == pytest.approx(
            stats.studentized_range.sf(q, treatments, df), abs=2e-9
        )


@pytest.mark.parametrize("df", [1, 4, 30])
def test_dunnett_tail_is_that_of_an_independent_integration(df):
    """Two treatments: a bivariate t; many: plain Monte Carlo from the definition."""
    for t in (0.7, 2.0, 3.5):
        law = stats.multivariate_t(np.zeros(2), [[1, 0.5], [0.5, 1]], df=df)
        inside = law.cdf(np.full(2, t), lower_limit=np.full(2, -t), maxpts=200_000, random_state=1)
        assert float(dunnett_sf(t, 2, df)) == pytest.approx(1 - inside, abs=2e-5)
    rng = np.random.default_rng(2)
    z, s = rng.standard_normal((200_000, 9)), np.sqrt(rng.chisquare(df, 200_000) / df)
    largest = np.abs(z[:, 1:] - z[:, :1]).max(axis=1) / np.sqrt(2) / s
    for t in (1.0, 2.5, 4.0):
        share = float((largest > t).mean())
        assert float(dunnett_sf(t, 8, df)) == pytest.approx(
            share, abs=4 * np.sqrt(share * (1 - share) / 200_000) + 1e-6
        )


def test_one_comparison_is_students_t():
    t = np.array([0.0, 0.5, 2.0, 10.0, 40.0])
    for df in (1, 3, 60):
        np.testing.assert_allclose(dunnett_sf(t, 1, df), 2 * stats.t.sf(t, df), rtol=1e-12)
        np.testing.assert_allclose(t_two_sided(-t, df), 2 * stats.t.sf(t, df), rtol=1e-12)
        np.testing.assert_allclose(tukey_sf(t * np.sqrt(2), 2, df), 2 * stats.t.sf(t, df), rtol=1e-7, atol=1e-12)
        assert dunnett_quantile(0.95, 1, df) == pytest.approx(t_quantile(0.975, df), rel=1e-10)
        assert tukey_quantile(0.95, 2, df) == pytest.approx(np.sqrt(2) * t_quantile(0.975, df), rel=1e-8)


def test_small_p_values_keep_their_leading_digits():
    """Far out the tail is that of one comparison times their number; subtraction from 1 would give 0 there."""
    assert float(dunnett_sf(12.0, 6, 200)) == pytest.approx(6 * 2 * stats.t.sf(12.0, 200), rel=1e-3)
    assert 0 < float(dunnett_sf(30.0, 6, 200)) < 1e-40
    assert float(dunnett_sf(np.inf, 6, 200)) == 0


@pytest.mark.parametrize("df", [1, 2, 7, 40, 1000])
def test_quantiles_invert_their_tails(df):
    for k in (2, 5, 30):
        assert float(dunnett_sf(dunnett_quantile(0.95, k, df), k, df)) == pytest.approx(0.05, abs=1e-9)
        assert float(tukey_sf(tukey_quantile(0.99, k, df), k, df)) == pytest.approx(0.01, abs=1e-9)


def test_more_treatments_cost_more_and_without_degrees_of_freedom_nothing_is_known():
    assert (
        t_quantile(0.975, 12)
        < dunnett_quantile(0.95, 2, 12)
        < dunnett_quantile(0.95, 9, 12)
        < t_quantile(1 - 0.025 / 9, 12)
    )
    assert dunnett_quantile(0.95, 3, 0) == tukey_quantile(0.95, 3, 0) == t_quantile(0.975, 0) == np.inf
    assert float(dunnett_sf(5.0, 3, 0)) == float(t_two_sided(5.0, 0)) == float(tukey_sf(5.0, 3, 0)) == 1
    assert tukey_quantile(0.95, 1, 10) == 0

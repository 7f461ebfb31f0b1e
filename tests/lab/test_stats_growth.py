# SPDX-License-Identifier: Apache-2.0
"""Laws of growth: recovered where the data can tell, not named where they cannot, with intervals that hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import curve_fit

from heapyard.stats.growth import CANNOT_TELL, compare_laws, growth_of
from heapyard.stats.growth_forms import FORMS

SIZES = np.geomspace(1e4, 1e6, 9)  # two decades, four sizes each


def measured(law: np.ndarray, noise: float, seed: int) -> np.ndarray:
    return law * np.exp(np.random.default_rng(seed).normal(0, noise, len(law)))


@pytest.mark.parametrize("form", ["log", "linear", "n log n", "quadratic"])
def test_a_law_over_two_decades_is_named(form: str) -> None:
    """With 1 % noise of a mean, in nearly every study."""
    law = 5 + 100 * FORMS[form](SIZES) / FORMS[form](SIZES).max()
    answers = [growth_of(SIZES, measured(law, 0.01, seed)).answer for seed in range(60)]
    assert answers.count(form) >= 54 and set(answers) <= {form, CANNOT_TELL}


def test_what_does_not_grow_is_seldom_given_a_law() -> None:
    answers = [growth_of(SIZES, measured(np.full(9, 3.0), 0.02, seed)).answer for seed in range(200)]
    assert sum(a not in ("constant", CANNOT_TELL) for a in answers) <= 20  # a difference of 2 in AICc is about 5 %
    assert answers.count("constant") >= 100


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(list(FORMS)[1:]), st.integers(0, 2**32 - 1), st.floats(1e-9, 1e9))
@example("log", 8, 1.0)
def test_the_fit_is_that_of_scipy(form: str, seed: int, unit: float) -> None:
    """Least squares of logs by another optimiser, in any unit."""
    f = FORMS[form](SIZES)
    f = f / f.max()
    y = unit * measured(1 + 3 * f, 0.05, seed)
    law = next(x for x in growth_of(SIZES, y).laws if x.name == form)

    def logs(x: np.ndarray, a: float, b: float) -> np.ndarray:
        return np.log(a + b * x)

    (a, b), covariance = curve_fit(logs, f, np.log(y / unit), p0=(1, 3), xtol=1e-14, ftol=1e-14)
    errors = np.sqrt(np.diag(covariance))  # a may be near 0: what matters is what it is known to
    assert np.abs(np.array([law.a / unit, law.b / unit * FORMS[form](SIZES).max()]) - (a, b)).max() < 1e-4 * errors.max()
    np.testing.assert_allclose(np.sqrt(np.diag(law.covariance)) / unit * [1, FORMS[form](SIZES).max()],
                               errors, rtol=1e-3)
    rss = float(((np.log(y / unit) - logs(f, a, b)) ** 2).sum())
    aicc = 9 * math.log(rss / 9) + 2 * 3 + 2 * 3 * 4 / (9 - 3 - 1)
    assert law.aicc == pytest.approx(aicc, abs=1e-6) and law.df == 7


def test_weights_are_akaikes() -> None:
    laws = growth_of(SIZES, measured(SIZES, 0.2, 3)).laws
    assert sum(law.weight for law in laws) == pytest.approx(1)
    for law in laws[1:]:
        assert law.weight / laws[0].weight == pytest.approx(math.exp((laws[0].aicc - law.aicc) / 2))
    assert [law.aicc for law in laws] == sorted(law.aicc for law in laws)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_the_slope_is_that_of_a_straight_line_of_logs(exponent: float) -> None:
    y = measured(SIZES**exponent, 0.05, 8)
    oracle = stats.linregress(np.log(SIZES), np.log(y))
    found = growth_of(SIZES, y).slope
    half = stats.t.ppf(0.975, 7) * oracle.stderr
    assert (found.value, found.low, found.high) == pytest.approx(
        (oracle.slope, oracle.slope - half, oracle.slope + half)
    )


def test_slope_and_prediction_intervals_hold_what_they_promise() -> None:
    """95 % of new measurements, at a size within the range and at one twice as large as any measured."""
    rng = np.random.default_rng(5)
    inside = np.zeros(3)
    for _ in range(500):
        found = growth_of(SIZES, (2e4 + SIZES) * np.exp(rng.normal(0, 0.03, 9)))
        law = next(x for x in found.laws if x.name == "linear")
        for i, n in enumerate((3e4, 2e6)):
            _, low, high = law.predict(n)
            inside[i] += low <= (2e4 + n) * math.exp(rng.normal(0, 0.03)) <= high
        powers = growth_of(SIZES, SIZES**0.8 * np.exp(rng.normal(0, 0.03, 9)))
        inside[2] += powers.slope.low <= 0.8 <= powers.slope.high
    assert all(0.92 <= share <= 0.98 for share in inside / 500), inside / 500


def test_less_than_a_decade_cannot_tell() -> None:
    narrow = np.geomspace(1e5, 9e5, 9)
    found = growth_of(narrow, narrow)
    assert found.answer == CANNOT_TELL and found.reason == "the sizes span a factor of 9, less than a decade"


def test_laws_that_are_supported_alike_are_named() -> None:
    """With 20 % noise nobody can tell n from n log n."""
    found = growth_of(SIZES, measured(SIZES, 0.2, 1))
    assert found.answer == CANNOT_TELL and found.reason == "n log n is supported like linear"


def test_too_few_sizes_cannot_tell() -> None:
    sizes = np.repeat([1e3, 1e4, 1e5], 3)
    found = growth_of(sizes, sizes)
    assert found.answer == CANNOT_TELL and found.reason == "a law of growth needs 6 different sizes, there are 3"


def test_an_exact_law_is_found_and_sizes_may_be_nought() -> None:
    sizes = np.array([0, 1, 3, 10, 30, 100, 300.0])
    found = growth_of(sizes, 7 + 2 * sizes)
    assert found.answer == "linear" and found.laws[0].a == pytest.approx(7) and found.laws[0].b == pytest.approx(2)
    assert found.laws[0].predict(1000.0)[0] == pytest.approx(2007)


def test_a_law_is_predicted_only_where_it_is_positive() -> None:
    falling = growth_of(SIZES, 1e7 - 5 * SIZES).laws[0]
    middle, low, high = falling.predict(np.array([1e5, 3e6]))
    assert middle[0] == pytest.approx(9.5e6) and low[0] <= middle[0] <= high[0] and math.isnan(middle[1])


@pytest.mark.parametrize(
    ("sizes", "response", "complaint"),
    [
        (range(1, 7), [1, 2, 3, 4, 5, 0], "positive responses"),
        (range(-1, 5), [1, 2, 3, 4, 5, 6], "not negative"),
        (range(1, 6), [1, 2, 3, 4, 5], "needs 6 measurements, there are 5"),
    ],
)
def test_what_cannot_grow_is_refused(sizes: range, response: list, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        growth_of(list(sizes), response)


def test_any_set_of_laws_can_be_compared() -> None:
    laws = {"constant": np.zeros(9), "root": np.sqrt(SIZES)}
    assert compare_laws(SIZES, laws, measured(np.sqrt(SIZES), 0.05, 2)).answer == "root"

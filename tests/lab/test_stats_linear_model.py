# SPDX-License-Identifier: Apache-2.0
"""Linear models over factors, unbalanced ones too: certified data, textbooks, statsmodels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm
from test_stats_block_model import GRAFTS, NIST, correct_digits
from test_stats_factorial import BATTERY

from heapyard.stats.design_matrix import Term, crossed, design_matrix
from heapyard.stats.factorial import Source, analyse_factorial
from heapyard.stats.linear_model import LinearFit, analysis_of_variance, fit_linear
from heapyard.stats.marginal_means import marginal_means


def long(y: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray, dict[str, list[int]]]:
    """An array with one axis per name as one row per value."""
    axes = np.indices(y.shape).reshape(y.ndim, -1)
    return y.ravel(), {name: axis.tolist() for name, axis in zip(names, axes, strict=False)}


def table(fit: LinearFit) -> dict[str, Source]:
    return {" x ".join(s.factors): s for s in analysis_of_variance(fit)}


# Certified data -------------------------------------------------------------------------------------------------------


def certified(name: str) -> tuple[dict[str, float], list[str], np.ndarray]:
    """NIST's certified values, and the treatment and response of every observation."""
    lines = (NIST / f"{name}.dat").read_text().splitlines()
    between, within = (next(x.split() for x in lines if x.startswith(word)) for word in ("Between", "Within"))
    squared = next(x.split()[-1] for x in lines if "R-Squared" in x)
    deviation = next(x.split()[-1] for x in lines if "Standard Deviation" in x)
    rows = [x.split() for x in lines[60:] if x.strip()]
    values = {
        "df": float(between[-4]), "between": float(between[-3]), "f": float(between[-1]), "error df": float(within[-3]),
        "within": float(within[-2]), "r squared": float(squared), "residual sd": float(deviation),
    }
    return values, [row[0] for row in rows], np.array([float(row[1]) for row in rows])


LOWER, AVERAGE, HIGHER = 9, 9, 4  # digits asked for; with 13 constant leading digits doubles hold no more than four


@pytest.mark.parametrize(
    ("name", "digits"),
    [
        ("SiRstv", LOWER), ("SmLs01", LOWER), ("SmLs02", LOWER), ("SmLs03", LOWER),
        ("AtmWtAg", AVERAGE), ("SmLs04", AVERAGE), ("SmLs05", AVERAGE), ("SmLs06", AVERAGE),
        ("SmLs07", HIGHER), ("SmLs08", HIGHER), ("SmLs09", HIGHER),
    ],
)
def test_nist_certified_one_way_sets(name: str, digits: int) -> None:
    wanted, treatment, y = certified(name)
    fit = fit_linear(y, {"treatment": treatment}, [("treatment",)])
    (source,) = analysis_of_variance(fit)
    assert (source.df, fit.error_df) == (wanted["df"], wanted["error df"])
    found = {"f": source.f, "r squared": fit.r_squared, "residual sd": fit.residual_sd}
    assert {k: v for k, v in found.items() if correct_digits(v, wanted[k]) < digits} == {}
    # The doubles of SmLs07 to 09 themselves have sums of squares that agree to 3.9 digits only.
    sums = {"between": source.sum_of_squares, "within": fit.error_sum_of_squares}
    assert {k: v for k, v in sums.items() if correct_digits(v, wanted[k]) < min(digits, 9 if digits > 4 else 3.5)} == {}


# Textbooks ------------------------------------------------------------------------------------------------------------


def test_the_textbook_two_way_table() -> None:
    """Montgomery's batteries; the replicates are error there."""
    y, factors = long(BATTERY, ["material", "temperature"])
    fit = fit_linear(y, factors, crossed(["material", "temperature"]))
    found = table(fit)
    published = {"material": (2, 10683.72, 7.91), "temperature": (2, 39118.72, 28.97)}
    published["material x temperature"] = (4, 9613.78, 3.56)
    for name, (df, squares, f) in published.items():
        assert found[name].df == df and found[name].sum_of_squares == pytest.approx(squares, abs=0.005)
        assert found[name].f == pytest.approx(f, abs=0.005)
    assert fit.error_sum_of_squares == pytest.approx(18230.75, abs=0.005) and fit.error_df == 27


def test_the_textbook_randomised_blocks() -> None:
    """Montgomery's vascular grafts."""
    y, factors = long(GRAFTS, ["batch", "pressure"])
    fit = fit_linear(y, factors, [("batch",), ("pressure",)])
    found = table(fit)
    assert found["pressure"].sum_of_squares == pytest.approx(178.171, abs=5e-4)
    assert found["batch"].sum_of_squares == pytest.approx(192.252, abs=5e-4)
    assert fit.error_sum_of_squares == pytest.approx(109.886, abs=5e-4) and fit.error_df == 15
    assert found["pressure"].p == pytest.approx(0.0019, abs=5e-5)


# Montgomery's filtration rates, a 2^4 factorial of single runs; temperature, pressure, concentration, stirring.
FILTRATION = [45, 71, 48, 65, 68, 60, 80, 65, 43, 100, 45, 104, 75, 86, 70, 96]


def test_the_textbook_two_level_table() -> None:
    runs = list(itertools.product("-+", repeat=4))  # D slowest, A fastest
    factors = {name: [run[3 - i] for run in runs] for i, name in enumerate("ABCD")}
    fit = fit_linear(FILTRATION, factors, crossed("ABCD", order=3))
    found = table(fit)
    for name, squares in {"A": 1870.56, "C": 390.06, "D": 855.56, "A x C": 1314.06, "A x D": 1105.56}.items():
        assert found[name].sum_of_squares == pytest.approx(squares, abs=0.005) and found[name].df == 1
    assert fit.error_df == 1  # the interaction of all four
    saturated = fit_linear(FILTRATION, factors, crossed("ABCD"))
    assert saturated.error_df == 0 and all(math.isnan(s.p) for s in analysis_of_variance(saturated))


# An independent library -----------------------------------------------------------------------------------------------


@st.composite
def unbalanced(draw: st.DrawFn) -> tuple[np.ndarray, dict[str, list[int]]]:
    """Two or three factors and blocks with every pair of levels somewhere, and up to a third of the trials lost."""
    shape = draw(st.tuples(st.integers(2, 3), st.integers(2, 4), st.integers(3, 5)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    cells = np.indices(shape).reshape(3, -1).T
    kept = rng.random(len(cells)) > draw(st.sampled_from([0.0, 0.15, 0.3]))
    kept[cells[:, 2] == 0] = True  # one whole block: every cell is there
    cells = cells[kept]
    y = rng.normal(size=len(cells)) + cells @ np.array([0.5, -0.3, 1.0]) + draw(st.sampled_from([0.0, 1e3]))
    return y, {name: cells[:, i].tolist() for i, name in enumerate("abr")}


@settings(max_examples=25, deadline=None)
@given(unbalanced())
def test_type_two_is_that_of_statsmodels(made: tuple[np.ndarray, dict[str, list[int]]]) -> None:
    y, factors = made
    fit = fit_linear(y, factors, [("a",), ("b",), ("a", "b"), ("r",)])
    model = ols("y ~ C(a, Sum)*C(b, Sum) + C(r, Sum)", pd.DataFrame({"y": y - y.mean(), **factors})).fit()
    oracle = anova_lm(model, typ=2)
    for source in analysis_of_variance(fit):
        row = oracle.loc[":".join(f"C({f}, Sum)" for f in source.factors)]
        assert source.df == row["df"]
        assert source.sum_of_squares == pytest.approx(row["sum_sq"], rel=1e-8, abs=1e-10)
        assert source.p == pytest.approx(row["PR(>F)"], abs=1e-9)
    assert fit.error_sum_of_squares == pytest.approx(oracle.loc["Residual", "sum_sq"], rel=1e-9)
    np.testing.assert_allclose(fit.leverages, model.get_influence().hat_matrix_diag, atol=1e-9)
    np.testing.assert_allclose(fit.residuals, model.resid, atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(unbalanced())
def test_marginal_means_are_predictions_averaged_over_a_grid(made: tuple[np.ndarray, dict[str, list[int]]]) -> None:
    y, factors = made
    fit = fit_linear(y, factors, [("a",), ("b",), ("a", "b"), ("r",)])
    model = ols("y ~ C(a)*C(b) + C(r)", pd.DataFrame({"y": y, **factors})).fit()
    grid = pd.DataFrame(itertools.product(*(sorted(set(v)) for v in factors.values())), columns=list(factors))
    found = marginal_means(fit, ("a",))
    predicted = grid.assign(y=model.predict(grid)).groupby("a")["y"].mean()
    np.testing.assert_allclose(found.means, [predicted[level] for (level,) in found.levels], rtol=1e-9)
    pairs = marginal_means(fit, ("b", "a"))
    predicted = grid.assign(y=model.predict(grid)).groupby(["b", "a"])["y"].mean()
    np.testing.assert_allclose(pairs.means, [predicted[level] for level in pairs.levels], rtol=1e-9)


def test_marginal_means_have_the_textbook_error_in_balanced_data() -> None:
    y, factors = long(GRAFTS, ["batch", "pressure"])
    found = marginal_means(fit_linear(y, factors, [("batch",), ("pressure",)]), ("pressure",))
    np.testing.assert_allclose(found.means, GRAFTS.mean(axis=0))
    difference = found.covariance[0, 0] + found.covariance[1, 1] - 2 * found.covariance[0, 1]
    assert difference == pytest.approx(2 * 109.886 / 15 / 6, rel=1e-4)
    assert found.half_widths()[0] == pytest.approx(2.13145 * math.sqrt(109.886 / 15 / 6), rel=1e-4)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_balanced_data_give_what_the_special_case_gives(seed: int) -> None:
    y = np.random.default_rng(seed).normal(size=(3, 2, 4, 3))
    special = analyse_factorial(y, ["a", "b", "c"])
    values, factors = long(y, ["a", "b", "c", "round"])
    found = table(fit_linear(values, factors, [*crossed("abc"), ("round",)]))
    for source in special.sources:
        other = found[" x ".join(source.factors) or "round"]
        assert other.df == source.df
        assert other.sum_of_squares == pytest.approx(source.sum_of_squares, rel=1e-9)
        assert other.omega_squared == pytest.approx(source.omega_squared, abs=1e-9)
        assert other.eta_squared == pytest.approx(source.eta_squared, rel=1e-9)


# Properties -----------------------------------------------------------------------------------------------------------


def test_factors_in_another_unit_and_order_change_nothing() -> None:
    """A response in milliseconds adds a constant to its log; rows and levels may come in any order."""
    rng = np.random.default_rng(4)
    y, factors = long(rng.normal(size=(3, 4, 5)), ["a", "b", "r"])
    kept = np.flatnonzero(rng.random(len(y)) > 0.1)
    terms: list[Term] = [*crossed("ab"), ("r",)]
    some = {name: [values[i] for i in kept] for name, values in factors.items()}
    before = table(fit_linear(y[kept], some, terms))
    other = rng.permutation(kept)
    moved = {name: [f"level {values[i]}" for i in other] for name, values in factors.items()}
    after = table(fit_linear(y[other] + math.log(1000), moved, terms))
    for name, source in before.items():
        assert after[name].sum_of_squares == pytest.approx(source.sum_of_squares, rel=1e-9)


def test_an_empty_cell_costs_degrees_of_freedom_and_its_mean() -> None:
    """An allocator that failed at one level: what is left is compared, what is not there is not made up."""
    rng = np.random.default_rng(7)
    y, factors = long(rng.normal(size=(3, 4, 6)), ["a", "b", "r"])
    kept = [i for i in range(len(y)) if (factors["a"][i], factors["b"][i]) != (2, 3)]
    fit = fit_linear(y[kept], {n: [v[i] for i in kept] for n, v in factors.items()}, [*crossed("ab"), ("r",)])
    found = table(fit)
    assert [found[name].df for name in ("a", "b", "a x b", "r")] == [2, 3, 5, 5]
    assert fit.error_df == 66 - 1 - 15
    means = marginal_means(fit, ("a",)).means
    assert np.isfinite(means[:2]).all() and math.isnan(means[2])
    cells = marginal_means(fit, ("a", "b"))
    assert [level for level, mean in zip(cells.levels, cells.means, strict=True) if math.isnan(mean)] == [(2, 3)]
    # Without the interaction the missing cell is predicted, so the mean is back.
    additive = fit_linear(y[kept], {n: [v[i] for i in kept] for n, v in factors.items()}, [("a",), ("b",), ("r",)])
    assert np.isfinite(marginal_means(additive, ("a",)).means).all()


def test_a_term_that_others_determine_has_no_degrees_of_freedom() -> None:
    level = [0, 0, 1, 1, 0, 1]
    fit = fit_linear([1.0, 2.0, 4.0, 3.0, 1.5, 3.5], {"a": level, "b": [x + 5 for x in level]}, [("a",), ("b",)])
    assert [(s.df, math.isnan(s.f)) for s in analysis_of_variance(fit)] == [(0, True), (0, True)] and fit.rank == 2


@pytest.mark.parametrize(
    ("y", "factors", "terms", "complaint"),
    [
        ([1, 2, 3, 4], {"a": [0, 0, 1, 1]}, [("b",)], "no factor 'b'"),
        ([1, 2, 3, 4], {"a": [0, 0, 0, 0]}, [("a",)], "'a' has one level"),
        ([1, 2, 3, 4], {"a": [0, 0, 1, 1], "b": [0, 1, 0, 1]}, [("a", "b"), ("a",)], "a x b but not b"),
        ([1, 2, 3, 4], {"a": [0, 0, 1, 1], "b": [0, 1, 0]}, [("a",)], "different numbers"),
        ([1, 2, 3], {"a": [0, 0, 1, 1]}, [("a",)], "3 responses for 4"),
        ([1, 2, math.inf, 4], {"a": [0, 0, 1, 1]}, [("a",)], "not a finite number"),
        ([1, 2, 3], {"a": [0, 1, 2], "b": [0, 1, 1]}, [("a",), ("b",)], "4 parameters from 3 trials"),
        ([1], {"a": [0]}, [], "one observation"),
    ],
)
def test_designs_that_estimate_nothing_are_refused(y: list, factors: dict, terms: list, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        fit_linear(y, factors, terms)


def test_chosen_interactions_are_all_up_to_their_order() -> None:
    assert crossed("abc", order=2) == [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")]
    assert len(crossed("abcd")) == 15
    design = design_matrix({"a": [0, 1, 2, 2], "b": list("xyxy")}, crossed("ab"))
    assert design.columns.shape == (4, 1 + 2 + 1 + 2)
    assert design.row({"a": 1}).tolist() == [1, 0, 1, 0, 0, 0]


def test_marginal_means_of_an_unknown_factor_are_refused() -> None:
    with pytest.raises(ValueError, match="no factor 'b'"):
        marginal_means(fit_linear([1, 2, 3, 5], {"a": [0, 0, 1, 1]}, [("a",)]), ("b",))

# SPDX-License-Identifier: Apache-2.0
"""The block model against certified data, a textbook, statsmodels and pingouin."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pingouin
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from heapyard.stats.block_model import cv_of, fit, scatter_differs
from heapyard.stats.contrasts import Contrasts
from heapyard.stats.quantiles import tukey_quantile, tukey_sf

NIST = Path(scipy.stats.__file__).parent / "tests" / "data" / "nist_anova"

# Vascular grafts: yield at four extrusion pressures in six batches of resin (Montgomery, Design and Analysis of
# Experiments).
PRESSURES = (8500, 8700, 8900, 9100)
GRAFTS = np.array(
    [
        [90.3, 92.5, 85.5, 82.5],
        [89.2, 89.5, 90.8, 89.5],
        [98.2, 90.6, 89.6, 85.6],
        [93.9, 94.7, 86.2, 87.4],
        [87.4, 87.0, 88.0, 78.9],
        [97.9, 95.8, 93.4, 90.7],
    ]
)


def nist(name):
    """(certified between SS, within SS, F) and the replicates x treatments table of a balanced NIST StRD set."""
    lines = (NIST / f"{name}.dat").read_text().splitlines()
    between = next(line.split() for line in lines if line.startswith("Between"))
    within = next(line.split() for line in lines if line.startswith("Within"))
    rows = [line.split() for line in lines[60:] if line.strip()]
    values = {}
    for treatment, response in rows:
        values.setdefault(treatment, []).append(float(response))
    return float(between[-3]), float(within[-2]), float(between[-1]), np.array(list(values.values())).T


def correct_digits(found, certified):
    return 16.0 if found == certified else -math.log10(abs(found - certified) / abs(certified))


@pytest.mark.parametrize(
    ("name", "digits"),
    [
        ("SiRstv", 12),
        ("SmLs01", 12),
        ("SmLs02", 12),
        ("SmLs03", 12),
        ("AtmWtAg", 9),
        ("SmLs04", 9),
        ("SmLs05", 9),
        ("SmLs06", 9),
        ("SmLs07", 4),
        ("SmLs08", 4),
        ("SmLs09", 4),
    ],
)  # the last three have 13 constant leading digits: doubles hold no more
def test_certified_sums_of_squares(name, digits):
    """One-way sets, replicates in the place of blocks: what the model calls block and error together is NIST's
    `within`."""
    between, within, f, table = nist(name)
    found = fit(table)
    replicates, treatments = table.shape
    pooled = found.ss_block + found.ss_error
    if digits > 4:  # of SmLs07 to 09 the doubles themselves have no better sums than 3.9 digits; see the next test
        assert correct_digits(found.ss_treatment, between) >= digits
        assert correct_digits(pooled, within) >= digits
    found_f = (found.ss_treatment / (treatments - 1)) / (pooled / (treatments * (replicates - 1)))
    assert correct_digits(found_f, f) >= digits


# in SmLs07 some residuals are of rounding size: nought
@pytest.mark.parametrize(("name", "digits"), [("SmLs04", 12), ("SmLs07", 7)])
def test_sums_of_squares_are_exact_for_the_doubles_given(name, digits):
    """Against rational arithmetic on the values as stored, thirteen constant leading digits and all."""
    table = nist(name)[3]
    exact = [[Fraction(value) for value in column] for column in table.T]
    means = [sum(column) / len(column) for column in exact]
    grand = sum(means) / len(means)
    between = sum(len(c) * (m - grand) ** 2 for c, m in zip(exact, means, strict=True))
    within = sum((v - m) ** 2 for c, m in zip(exact, means, strict=True) for v in c)
    found = fit(table)
    assert correct_digits(found.ss_treatment, float(between)) >= 12
    assert correct_digits(found.ss_block + found.ss_error, float(within)) >= digits


def test_vascular_grafts():
    found = fit(GRAFTS)
    assert found.ss_treatment == pytest.approx(178.171, abs=5e-4)
    assert found.ss_block == pytest.approx(192.252, abs=5e-4)
    assert found.ss_error == pytest.approx(109.886, abs=5e-4)
    assert (found.df, found.treatments, found.blocks) == (15, 4, 6)
    assert found.f_statistic == pytest.approx(8.107, abs=5e-4)
    assert scipy.stats.f.sf(found.f_statistic, 3, found.df) == pytest.approx(0.0019, abs=5e-5)


def test_vascular_grafts_by_tukey():
    found = fit(GRAFTS)
    unit = math.sqrt(found.mean_square / found.blocks)
    assert tukey_quantile(0.95, 4, 15) * unit == pytest.approx(4.504, abs=5e-4)

    def p(one, other):
        d = found.means[PRESSURES.index(one)] - found.means[PRESSURES.index(other)]
        return float(tukey_sf(abs(d) / unit, 4, 15))

    assert p(8500, 9100) == pytest.approx(0.0021, abs=5e-5)
    assert p(8700, 9100) == pytest.approx(0.0087, abs=5e-5)
    assert p(8500, 8900) == pytest.approx(0.1013, abs=5e-5)
    differs = Contrasts(GRAFTS, range(4), confidence=0.95).differs()
    assert {(PRESSURES[i], PRESSURES[j]) for i, j in zip(*np.nonzero(np.triu(differs)), strict=True)} == {
        (8500, 9100),
        (8700, 9100),
    }


def test_blocks_are_used():
    """Without its batches the same experiment has another error and finds less: p .0244 in place of .0021."""
    found = fit(GRAFTS)
    one_way = scipy.stats.tukey_hsd(*GRAFTS.T).pvalue[0, 3]
    assert one_way == pytest.approx(0.0244, abs=5e-5)
    ours = float(tukey_sf(abs(found.means[0] - found.means[3]) / math.sqrt(found.mean_square / 6), 4, 15))
    assert ours < one_way / 10


tables = st.tuples(st.integers(2, 9), st.integers(2, 7)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-3, 3).map(lambda x: round(x, 6)))
)


@settings(max_examples=25, deadline=None)
@given(tables)
def test_sums_of_squares_are_those_of_statsmodels(y):
    found = fit(y)
    long = pd.DataFrame(
        {"y": y.ravel(), "block": np.repeat(np.arange(len(y)), y.shape[1]), "t": np.tile(np.arange(y.shape[1]), len(y))}
    )
    oracle = anova_lm(ols("y ~ C(t) + C(block)", long).fit(), typ=1)  # balanced: the same for every type
    for ours, name in ((found.ss_treatment, "C(t)"), (found.ss_block, "C(block)"), (found.ss_error, "Residual")):
        assert ours == pytest.approx(oracle.loc[name, "sum_sq"], abs=1e-9)
    assert found.df == oracle.loc["Residual", "df"]


@pytest.mark.parametrize("seed", range(5))
def test_f_is_that_of_pingouins_repeated_measures(seed):
    rng = np.random.default_rng(seed)
    b, k = int(rng.integers(3, 12)), int(rng.integers(3, 8))
    y = rng.normal(size=(b, k)) + rng.normal(size=(b, 1)) + np.linspace(0, 1, k)
    long = pd.DataFrame({"y": y.ravel(), "block": np.repeat(np.arange(b), k), "t": np.tile(np.arange(k), b)})
    oracle = pingouin.rm_anova(long, dv="y", within="t", subject="block", detailed=True)
    assert fit(y).f_statistic == pytest.approx(float(oracle["F"].iloc[0]), rel=1e-9)
    assert fit(y).ss_error == pytest.approx(float(oracle["SS"].iloc[1]), rel=1e-9)


def test_a_common_offset_changes_nothing_but_the_means():
    y = np.random.default_rng(0).normal(size=(8, 5))
    near, far = fit(y), fit(y + 1e6)
    assert far.ss_error == pytest.approx(near.ss_error, rel=1e-8)
    np.testing.assert_allclose(far.means - 1e6, near.means, atol=1e-9)


def test_equal_rows_leave_no_residual_at_all():
    y = np.log(np.full((7, 1), 3.0) * np.array([1.0, 1.1, 1.7])) + np.log(np.linspace(1, 5, 7))[:, None]
    found = fit(y)
    assert found.ss_error == 0 and found.residual_cv == 0 and found.f_statistic == math.inf


def test_too_little_data_gives_nan_not_an_error():
    one = fit(np.array([[1.0, 2.0]]))
    assert one.df == 0 and math.isnan(one.mean_square) and math.isnan(one.residual_cv) and math.isnan(one.f_statistic)


def test_coefficient_of_variation_is_that_of_a_log_normal_response():
    draws = np.exp(np.random.default_rng(1).normal(0, 0.3, 400_000))
    assert cv_of(0.3**2) == pytest.approx(draws.std() / draws.mean(), rel=0.01)
    assert cv_of(1e4) < math.inf and cv_of(0.0) == 0


def test_scatter_test_is_levenes():
    rng = np.random.default_rng(8)
    for spread in (1.0, 1.5, 4.0):
        residuals = fit(rng.normal(size=(9, 5)) * np.array([spread, 1, 1, 1, 1])).residuals
        p = scipy.stats.levene(*residuals.T, center="mean").pvalue
        assert scatter_differs(residuals, level=p * 1.001) and not scatter_differs(residuals, level=p * 0.999)


def test_scatter_test_where_it_cannot_tell():
    two = fit(np.random.default_rng(1).normal(size=(9, 2)) * np.array([1, 50])).residuals
    assert not scatter_differs(two, level=0.99)
    assert not scatter_differs(np.zeros((6, 5)), level=0.99)

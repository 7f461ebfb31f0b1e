# SPDX-License-Identifier: Apache-2.0
"""Analysis of variance of factorials: certified and textbook tables, an independent library, known truth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_stats_claims import study

from heapyard.stats.analyse import analyse
from heapyard.stats.factorial import Factorial, analyse_factorial, average_ranks
from heapyard.stats.residuals import look_at


def table(fit: Factorial) -> dict[str, tuple[int, float]]:
    return {" x ".join(s.factors) or "blocks": (s.df, s.sum_of_squares) for s in fit.sources}


# Montgomery, Design and Analysis of Experiments, battery life: material (rows) by temperature (columns), four replicates.
# Published: material 10683.72 (2 df), temperature 39118.72 (2), interaction 9613.78 (4), error 18230.75 (27), total 77646.97.
BATTERY = np.array(
    [
        [[130, 155, 74, 180], [34, 40, 80, 75], [20, 70, 82, 58]],
        [[150, 188, 159, 126], [136, 122, 106, 115], [25, 70, 58, 45]],
        [[138, 110, 168, 160], [174, 120, 150, 139], [96, 104, 82, 60]],
    ],
    dtype=float,
)


def test_the_textbook_two_way_table() -> None:
    fit = analyse_factorial(BATTERY, ["material", "temperature"])
    found = table(fit)
    assert found["material"] == (2, pytest.approx(10683.72, abs=0.005))
    assert found["temperature"] == (2, pytest.approx(39118.72, abs=0.005))
    assert found["material x temperature"] == (4, pytest.approx(9613.78, abs=0.005))
    # The book has no blocks: what ours gives to the replicates was error there.
    assert found["blocks"][1] + fit.error_sum_of_squares == pytest.approx(18230.75, abs=0.005)
    assert found["blocks"][0] + fit.error_df == 27


# Box, Hunter and Hunter's pilot plant, a 2^3 factorial of single runs: effects temperature 23, concentration -5, catalyst 1.5,
# temperature x catalyst 10, the others 1.5, 0 and 0.5. A sum of squares is 8 (effect / 2)^2.
PLANT = np.array([[[60, 52], [54, 45]], [[72, 83], [68, 80]]], dtype=float)  # temperature, concentration, catalyst


def test_the_textbook_two_level_table() -> None:
    twice = np.stack([PLANT - 1, PLANT + 1], axis=-1)  # two blocks around the published means
    fit = analyse_factorial(twice, ["T", "C", "K"])
    effects = {"T": 23, "C": -5, "K": 1.5, "T x C": 1.5, "T x K": 10, "C x K": 0, "T x C x K": 0.5}
    for name, effect in effects.items():
        assert table(fit)[name] == (1, pytest.approx(2 * 8 * (effect / 2) ** 2))
    assert fit.error_sum_of_squares == pytest.approx(0, abs=1e-9) and fit.error_df == 7


@settings(max_examples=25, deadline=None)
@given(st.tuples(st.integers(2, 4), st.integers(2, 3), st.integers(2, 3), st.integers(2, 4)), st.integers(0, 2**32 - 1))
def test_it_agrees_with_statsmodels(shape: tuple[int, ...], seed: int) -> None:
    import pandas as pd
    import statsmodels.api as sm
    from statsmodels.formula.api import ols

    y = np.random.default_rng(seed).normal(size=shape)
    axes = np.indices(shape).reshape(4, -1)
    frame = pd.DataFrame({"y": y.ravel(), **dict(zip("abcr", axes, strict=True))})
    model = ols("y ~ C(a)*C(b)*C(c) + C(r)", frame).fit()
    oracle = sm.stats.anova_lm(model, typ=2)
    fit = analyse_factorial(y, ["a", "b", "c"])
    for source in fit.sources:
        name = ":".join(f"C({f})" for f in source.factors) or "C(r)"
        row = oracle.loc[name]
        assert source.df == row["df"] and source.sum_of_squares == pytest.approx(row["sum_sq"], rel=1e-8, abs=1e-10)
        assert source.p == pytest.approx(row["PR(>F)"], abs=1e-9)
    assert fit.error_df == oracle.loc["Residual", "df"]
    assert fit.error_sum_of_squares == pytest.approx(oracle.loc["Residual", "sum_sq"])


def test_a_large_offset_eats_no_digits() -> None:
    small = analyse_factorial(BATTERY, ["m", "t"])
    large = analyse_factorial(BATTERY + 1e12, ["m", "t"])
    for a, b in zip(small.sources, large.sources, strict=True):
        assert a.sum_of_squares == pytest.approx(b.sum_of_squares, rel=1e-6)


@pytest.mark.parametrize(
    "y, names, complaint",
    [
        (BATTERY[:, :, :1], ["m", "t"], "one block"),
        (BATTERY[:1], ["m", "t"], "'m' has one level"),
        (BATTERY, ["m"], "1 names for 2 factors"),
    ],
)
def test_designs_that_estimate_nothing_are_refused(y: np.ndarray, names: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        analyse_factorial(y, names)


def test_no_effect_is_significant_one_time_in_twenty() -> None:
    draw = np.random.default_rng(5)
    called = np.zeros(3)
    for _ in range(400):
        fit = analyse_factorial(draw.normal(size=(3, 4, 5)) + draw.normal(size=5), ["a", "b"])
        called += [s.p < 0.05 for s in fit.sources if s.factors]
    assert all(8 <= n <= 34 for n in called), called  # 20 expected; 0.1 % and 99.9 % of the binomial


def test_ranks_and_residuals() -> None:
    y = np.array([[[1.0, 2.0]], [[2.0, 3.0]], [[2.0, 9.0]]])
    assert average_ranks(y, 0).tolist() == [1.0, 2.25, 2.75]
    draw = np.random.default_rng(1)
    normal = look_at(draw.normal(size=500), np.arange(500), 490)
    assert normal.straightness > 0.99 and abs(normal.drift) < 0.15 and 2 < normal.largest < 5
    skewed = look_at(draw.lognormal(sigma=2, size=500), np.arange(500), 490)
    assert skewed.straightness < 0.8 and skewed.largest > 5
    walk = look_at(np.cumsum(draw.normal(size=500)), np.arange(500), 490)
    assert walk.drift > 0.9
    assert math.isnan(look_at(np.zeros(9), np.arange(9), 4).drift)


def test_a_study_says_which_factors_matter_and_who_belongs_together() -> None:
    speeds = {"base": 1.0, "one": 0.8, "two": 0.8}
    analysis = analyse(study(lambda level, t: speeds[t] * level ** (1.2 if t == "two" else 1.0), rounds=6))
    (anova,) = analysis.anovas
    rows = {row.source: row for row in anova.rows}
    assert anova.factors == ("allocator", "x") and anova.cells == 15 and anova.rounds == 6
    assert rows["x"].p < 1e-9 and rows["allocator x x"].p < 1e-9 and rows["x"].omega_squared > 0.99
    assert {m.treatment: m.letters for m in anova.means} == {"one": "a", "base": "b", "two": "c"}
    assert anova.means[0].ratio == pytest.approx(0.8, rel=0.02) and anova.means[0].average_rank < 1.5
    assert anova.residual_cv == pytest.approx(0.01, rel=0.3)


def test_what_is_no_full_crossing_has_no_table() -> None:
    full = study(lambda level, t: 1.0)
    assert analyse(full).anovas
    assert not analyse(replace(full, workloads=full.workloads[:1])).anovas
    two = {w: {**levels, "y": "1" if w == full.workloads[0] else "2"} for w, levels in full.levels.items()}
    assert not analyse(replace(full, levels=two)).anovas
    lacking = tuple(r for r in full.rows if not (r.round > 0 and r.workload == full.workloads[0]))
    assert not analyse(replace(full, rows=lacking)).anovas

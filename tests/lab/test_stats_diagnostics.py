# SPDX-License-Identifier: Apache-2.0
"""Diagnostics of residuals: seen where planted, quiet where not, in agreement with other libraries."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import ols

from heapyard.stats import diagnostics
from heapyard.stats.block_model import fit
from heapyard.stats.diagnostics import Diagnostics, diagnose, levene_p, outliers
from heapyard.stats.linear_model import fit_linear


def run(y: np.ndarray, places: np.ndarray, seed: int = 0) -> Diagnostics:
    """`y`: blocks x treatments; `places`: of each treatment in its block."""
    blocks, k = y.shape
    block = np.repeat(np.arange(blocks), k)
    found = fit(y)
    return diagnose(
        found.residuals.ravel(),
        leverages=np.full(y.size, 1 - found.df / y.size),
        error_df=found.df,
        groups=np.tile(np.arange(k), blocks).tolist(),
        blocks=block,
        order=block * k + places.ravel(),
        seed=seed,
    )


def shuffled(rng: np.random.Generator, blocks: int, k: int) -> np.ndarray:
    return rng.permuted(np.tile(np.arange(k), (blocks, 1)), axis=1)


@pytest.mark.parametrize("k", [2, 3, 8])
def test_false_alarms_are_as_rare_as_promised(k: int) -> None:
    """Order effects at 5 % each, with drift from block to block, whatever the number of treatments."""
    rng = np.random.default_rng(k)
    called = np.zeros(4)
    for seed in range(150):
        y = rng.normal(0, 0.01, (12, k)) + np.cumsum(rng.normal(0, 0.05, (12, 1)), axis=0)
        found = run(y, shuffled(rng, 12, k), seed)
        called += [found.neighbours.p < 0.05, found.drift.p < 0.05, found.place.p < 0.05, bool(found.outliers)]
    assert all(n <= 17 for n in called), called  # 7.5 expected; 17 is beyond 99.9 %


def test_a_drift_within_blocks_is_seen_and_measured() -> None:
    rng = np.random.default_rng(1)
    places = shuffled(rng, 20, 5)
    found = run(rng.normal(0, 0.01, (20, 5)) + 0.04 * places / 4, places)
    assert found.drift.p <= 0.002 and found.drift.size == pytest.approx(0.04, abs=0.015)


def test_the_first_place_that_pays_for_a_cold_cache_is_seen() -> None:
    rng = np.random.default_rng(2)
    places = shuffled(rng, 20, 5)
    found = run(rng.normal(0, 0.01, (20, 5)) + 0.03 * (places == 0), places)
    assert found.place.p <= 0.002 and found.place.size > 0.004


def test_neighbours_that_resemble_each_other_are_seen() -> None:
    rng = np.random.default_rng(3)
    k, blocks = 8, 20
    level = np.zeros((blocks, k))
    for i in range(1, k):
        level[:, i] = 0.9 * level[:, i - 1] + rng.normal(0, 0.01, blocks)
    places = shuffled(rng, blocks, k)
    found = run(np.take_along_axis(level, places, axis=1), places)
    assert found.neighbours.p <= 0.002 and found.neighbours.size > 0.2


def test_a_wild_trial_is_named_and_a_tame_set_has_none() -> None:
    rng = np.random.default_rng(4)
    y = rng.normal(0, 0.01, (15, 4))
    assert run(y, shuffled(rng, 15, 4)).outliers == ()
    y[7, 2] += 0.2
    (found,) = run(y, shuffled(rng, 15, 4)).outliers
    assert found.at == 7 * 4 + 2 and found.studentized > 10 and found.p < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_studentized_residuals_are_those_of_statsmodels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.integers(0, 3, 30), "b": rng.integers(0, 4, 30), "y": rng.standard_t(2, 30)})
    ours = fit_linear(frame["y"], {"a": frame["a"].tolist(), "b": frame["b"].tolist()}, [("a",), ("b",)])
    oracle = ols("y ~ C(a) + C(b)", frame).fit().outlier_test()
    found = outliers(ours.residuals, ours.leverages, ours.error_df, level=2.0)  # all of them
    assert len(found) == 30
    for one in found:
        assert one.studentized == pytest.approx(oracle.loc[one.at, "student_resid"])
        assert one.p == pytest.approx(oracle.loc[one.at, "bonf(p)"], abs=1e-9)
    assert [abs(o.studentized) for o in found] == sorted((abs(o.studentized) for o in found), reverse=True)


def test_scatter_is_levenes_in_groups_of_any_size() -> None:
    rng = np.random.default_rng(6)
    groups = [rng.normal(0, scale, size) for scale, size in ((1, 8), (3, 12), (1, 5))]
    labels = np.repeat(["x", "y", "z"], [len(g) for g in groups]).tolist()
    oracle = stats.levene(*groups, center="mean").pvalue
    assert levene_p(np.concatenate(groups), labels) == pytest.approx(oracle)
    assert math.isnan(levene_p(np.ones(4), list("aabb"))) and math.isnan(levene_p(np.arange(3.0), list("aaa")))


def test_the_probability_plot() -> None:
    rng = np.random.default_rng(7)
    found = run(rng.normal(0, 0.02, (25, 4)), shuffled(rng, 25, 4))
    assert (np.diff(found.observed) >= 0).all() and found.expected[0] == pytest.approx(-found.expected[-1])
    slope = np.polyfit(found.expected, found.observed, 1)[0]
    assert slope == pytest.approx(math.sqrt(72 / 100), abs=0.1)  # residuals scatter less than errors, by their df
    assert np.corrcoef(found.expected, found.observed)[0, 1] == pytest.approx(found.summary.straightness)


def test_nothing_scatters_nothing_is_seen() -> None:
    found = run(np.outer(np.arange(5.0), np.ones(3)), np.tile(np.arange(3), (5, 1)))
    assert found.outliers == () and found.drift.p == found.place.p == found.neighbours.p == 1.0
    assert math.isnan(found.scatter_p) and not found.observed.any()


@pytest.mark.parametrize("sizes", [[4] * 30, [4, 3, 1, 5, 4, 2, 4] * 4], ids=["equal blocks", "unequal blocks"])
def test_the_effect_of_the_place_is_the_scatter_of_the_means_of_places(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Held against plain loops, without the mean of the shuffles: none of them moves anything here."""
    monkeypatch.setattr(diagnostics, "_shuffles", lambda r, block, sizes, seed: iter([np.zeros((3, len(r)))]))
    block = np.repeat(np.arange(len(sizes)), sizes)
    r = np.random.default_rng(3).normal(size=len(block))
    found = diagnose(r, leverages=np.zeros(len(r)), error_df=9, groups=block.tolist(), blocks=block, order=np.arange(len(r)))
    by_place: dict[int, list[float]] = {}
    for b in range(len(sizes)):
        for place, value in enumerate(r[block == b]):
            by_place.setdefault(place, []).append(value)
    wanted = math.sqrt(sum(len(v) * np.mean(v) ** 2 for v in by_place.values()) / len(r))
    assert found.place.size == pytest.approx(wanted)


def test_shuffles_are_never_held_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "HELD", 1 << 14)
    block = np.repeat(np.arange(250), 8)
    r = np.random.default_rng(4).normal(size=len(block))
    tracemalloc.start()
    try:
        diagnostics._order_effects(r, block, 0)
        _now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < diagnostics.SHUFFLES * r.nbytes / 8

# SPDX-License-Identifier: Apache-2.0
"""All pairs of a model's means: published tables, scipy, and unbalanced data by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from test_stats_block_model import GRAFTS, PRESSURES
from test_stats_linear_model import long

from heapyard.stats.design_matrix import crossed
from heapyard.stats.linear_model import fit_linear
from heapyard.stats.marginal_means import marginal_means
from heapyard.stats.quantiles import tukey_quantile, tukey_sf
from heapyard.stats.tukey import Pair, all_pairs


# R's `warpbreaks`: breaks of yarn per loom, wool A and B by tension L, M, H, nine looms each.
BREAKS = {
    "A": {
        "L": (26, 30, 54, 25, 70, 52, 51, 26, 67),
        "M": (18, 21, 29, 17, 12, 18, 35, 30, 36),
        "H": (36, 21, 24, 18, 10, 43, 28, 15, 26),
    },
    "B": {
        "L": (27, 14, 29, 19, 29, 31, 41, 20, 44),
        "M": (42, 26, 19, 16, 39, 28, 21, 39, 29),
        "H": (20, 21, 24, 17, 13, 15, 15, 16, 28),
    },
}


def test_the_table_in_the_manual_of_r() -> None:
    """TukeyHSD on aov(breaks ~ wool + tension), as printed there."""
    rows = [(w, t, n) for w, tensions in BREAKS.items() for t, counts in tensions.items() for n in counts]
    factors = {"wool": [row[0] for row in rows], "tension": [row[1] for row in rows]}
    fit = fit_linear([row[2] for row in rows], factors, [("wool",), ("tension",)])
    found = all_pairs(marginal_means(fit, ("tension",)))
    published = {
        ("L", "M"): (-10.000000, -19.35342, -0.6465793, 0.0336262),
        ("L", "H"): (-14.722222, -24.07564, -5.3688015, 0.0011218),
        ("M", "H"): (-4.722222, -14.07564, 4.6311985, 0.4474210),
    }
    for pair in found.pairs:
        difference, low, high, p = published[pair.first, pair.second]
        assert (pair.difference, pair.low, pair.high) == pytest.approx((difference, low, high), abs=6e-6)
        assert pair.p == pytest.approx(p, abs=6e-8)
    assert dict(zip(found.labels, found.letters, strict=True)) == {"H": "a", "M": "a", "L": "b"}
    assert found.groups == (("H", "M"), ("L",)) and found.are_clusters


def test_blocks_are_used() -> None:
    """Montgomery's vascular grafts: p of the extreme pair .0021, not the .0244 of a one-way layout."""
    y, factors = long(GRAFTS, ["batch", "pressure"])
    found = all_pairs(marginal_means(fit_linear(y, factors, [("batch",), ("pressure",)]), ("pressure",)))
    p = {(PRESSURES[pair.first], PRESSURES[pair.second]): pair.p for pair in found.pairs}
    assert p[8500, 9100] == pytest.approx(0.0021, abs=5e-5) and p[8700, 9100] == pytest.approx(0.0087, abs=5e-5)
    assert found.groups == ((3, 2), (2, 1, 0)) and not found.are_clusters  # 9100 and 8900; 8900, 8700 and 8500


@pytest.mark.parametrize("seed", range(3))
def test_unequal_groups_are_those_of_scipy(seed: int) -> None:
    """Tukey and Kramer in a one-way layout."""
    rng = np.random.default_rng(seed)
    groups = [rng.normal(i / 2, 1, size) for i, size in enumerate((5, 9, 14, 7))]
    oracle = stats.tukey_hsd(*groups)
    limits = oracle.confidence_interval(0.95)
    labels = np.repeat(range(4), [len(g) for g in groups])
    found = all_pairs(marginal_means(fit_linear(np.concatenate(groups), {"g": labels.tolist()}, [("g",)]), ("g",)))
    for pair in found.pairs:
        i, j = pair.second, pair.first
        assert pair.difference == pytest.approx(oracle.statistic[i, j])
        assert pair.p == pytest.approx(oracle.pvalue[i, j], abs=1e-7)
        assert (pair.low, pair.high) == pytest.approx((limits.low[i, j], limits.high[i, j]), abs=1e-6)


@pytest.mark.parametrize(
    ("k", "df", "printed"),
    [
        (3, 10, 3.877), (3, 20, 3.578), (5, 20, 4.232), (10, 60, 4.646), (2, 5, 3.635), (3, 10**7, 3.314),
        (2, 10**7, 2.772), (4, 20, 3.958), (2, 576, 2.778), (4, 576, 3.644), (16, 576, 4.867), (6, 3456, 4.032),
    ],
)
def test_the_table_of_the_studentized_range(k: int, df: int, printed: float) -> None:
    """Upper 5 % points; the last ones are those of the factorial study's sizes."""
    assert tukey_quantile(0.95, k, df) == pytest.approx(printed, abs=6e-4)
    assert float(tukey_sf(printed, k, df)) == pytest.approx(0.05, abs=2e-4)


def test_pairs_of_combinations_and_what_is_missing() -> None:
    """Cells of two factors are compared like any means; a cell that was never measured takes no part."""
    rng = np.random.default_rng(2)
    y, factors = long(rng.normal(0, 0.01, (3, 2, 6)) + np.arange(3)[:, None, None], ["a", "b", "r"])
    kept = [i for i in range(len(y)) if (factors["a"][i], factors["b"][i]) != (2, 1)]
    fit = fit_linear(y[kept], {n: [v[i] for i in kept] for n, v in factors.items()}, [*crossed("ab"), ("r",)])
    found = all_pairs(marginal_means(fit, ("a", "b")))
    assert (2, 1) not in found.labels and len(found.pairs) == 10
    assert [set(group) for group in found.groups] == [{(0, 0), (0, 1)}, {(1, 0), (1, 1)}, {(2, 0)}]


def test_no_degrees_of_freedom_no_statement() -> None:
    saturated = fit_linear([1.0, 5.0, 2.0, 9.0], {"a": [0, 0, 1, 1], "b": [0, 1, 0, 1]}, crossed("ab"))
    found = all_pairs(marginal_means(saturated, ("a",)))
    assert found.pairs == (Pair(0, 1, pytest.approx(2.5), -math.inf, math.inf, 1.0),)
    assert set(found.letters) == {"a"}


def test_equal_measurements_are_certainly_different_or_equal() -> None:
    y = [0.0, 1.0, 1.0] * 3
    fit = fit_linear(y, {"a": list("xyz") * 3, "r": [i // 3 for i in range(9)]}, [("a",), ("r",)])
    found = all_pairs(marginal_means(fit, ("a",)))
    assert [(p.first, p.second) for p in found.pairs if p.p < 0.5] == [("x", "y"), ("x", "z")]
    assert found.letters == ("a", "b", "b")

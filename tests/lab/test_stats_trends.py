# SPDX-License-Identifier: Apache-2.0
"""Laws of growth, scaling and ranks as a study's answer holds them, and as its report shows them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from heapyard.model.analysis import CurvePoint, Curves, Interval
from heapyard.model.experiment import Settings
from heapyard.model.figure import Figure
from heapyard.model.metrics import define, own_metric
from heapyard.report import trend_words
from heapyard.report.figures.ranks import ranks
from heapyard.stats.rankings import ranking_of
from heapyard.stats.tables import Table
from heapyard.stats.trends import scalings_of, trends_of

SIZES = (1000, 3000, 10_000, 30_000, 100_000, 300_000)
THROUGHPUT = own_metric("throughput", "1/s", "higher")
LAWS = {"linear": lambda n: 5.0 + 0.01 * n, "quadratic": lambda n: 1.0 + 1e-6 * n * n, "constant": lambda n: 7.0 + 0 * n}


def curves(over: str, metric: str, lines: dict[str, list[float]], levels: tuple[float, ...], **figure: object) -> Curves:
    points = tuple(
        CurvePoint(name, f"{level:g}", Interval(value, value, value), 4, f"{over}={level:g}")
        for name, values in lines.items() for level, value in zip(levels, values, strict=True)
    )
    return Curves(Figure("a figure", metric, over, **figure), tuple(f"{level:g}" for level in levels), points)


@pytest.mark.parametrize("law", LAWS)
def test_a_figure_over_sizes_gets_its_law(law: str) -> None:
    noise = np.random.default_rng(3).normal(0, 0.01, len(SIZES))
    values = [float(LAWS[law](n) * np.exp(e)) for n, e in zip(SIZES, noise, strict=True)]
    (trend,) = trends_of([curves("size", "wall", {"a": values}, SIZES)])
    assert (trend.answer, trend.weights[0][0], trend.at) == (law, law, 600_000)
    assert trend.expected.low < LAWS[law](600_000) < trend.expected.high
    assert trend_words.law_of(trend).startswith("O(") and "%" in trend_words.support_of(trend)
    assert trend_words.expected_of(trend).endswith("at 600,000")


def test_few_levels_a_narrow_range_ratios_and_threads_have_no_law() -> None:
    few = curves("size", "wall", {"a": [1.0, 2.0, 3.0]}, SIZES[:3])
    narrow = curves("size", "wall", {"a": [1.0] * 6}, (10, 11, 12, 13, 14, 15))
    ratios = curves("size", "wall", {"a": [1.0] * 6}, SIZES, relative=True)
    threads = curves("threads", "wall", {"a": [1.0] * 6}, (1, 2, 4, 8, 16, 32))
    assert trends_of([few, narrow, ratios, threads]) == ()


@pytest.fixture(autouse=True)
def _metrics() -> None:
    define([THROUGHPUT])  # as a mutator's result does


def test_scaling_is_fitted_up_to_the_processors_and_refused_beyond() -> None:
    counts = (1, 2, 4, 8, 16)
    law = [1000 * n / (1 + 0.05 * (n - 1) + 0.001 * n * (n - 1)) for n in counts]
    figure = curves("threads", "throughput", {"a": law}, counts)
    (fitted,) = scalings_of([figure], 16)
    assert fitted.contention and fitted.coherency
    assert fitted.contention.value == pytest.approx(0.05, rel=1e-6)
    assert fitted.peak == pytest.approx((0.95 / 0.001) ** 0.5, rel=1e-6)
    (refused,) = scalings_of([figure], 2)
    assert refused.contention is None and "2 processors; measured there: 1, 2" in refused.reason
    assert trend_words.refusals([refused, refused]) == [refused.reason]


def test_ranks_are_those_of_the_means_and_need_enough_programs() -> None:
    draw = np.random.default_rng(1)
    labels = ("base", "fast", "slow")
    tables = [
        Table(f"w{i}", "wall", labels, np.exp(draw.normal(4, 0.3) + draw.normal([0, -0.2, 0.3], 0.02, (6, 3))))
        for i in range(8)
    ]
    ranking = ranking_of("wall", tables, [t.workload for t in tables], labels, settings=Settings())
    assert ranking and [r.treatment for r in ranking.rows] == ["fast", "base", "slow"]
    assert [r.rank for r in ranking.rows] == [1, 2, 3]
    assert ranking.p < 0.001 and len({r.letters for r in ranking.rows}) == 3
    few = tables[:4]
    assert ranking_of("wall", few, [t.workload for t in few], labels, settings=Settings()) is None
    drawn = json.dumps(ranks(ranking))
    assert all(name in drawn for name in labels) and "critical difference" in drawn


def test_of_a_throughput_the_largest_ranks_first() -> None:
    tables = [Table(f"w{i}", "throughput", ("base", "more"), np.array([[1.0, 2.0], [1.1, 2.1]])) for i in range(6)]
    names, both = [t.workload for t in tables], ("base", "more")
    ranking = ranking_of("throughput", tables, names, both, settings=Settings())
    assert ranking and ranking.rows[0].treatment == "more"

# SPDX-License-Identifier: Apache-2.0
"""What the report's page is made of: where names go, what the figures show, how long curves get."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from simulated import curve, simulate

from heapyard.model.errors import HeapyardError
from heapyard.report import page_data, page_tables
from heapyard.report.figures import forest as figure_forest
from heapyard.report.figures import scatter as figure_scatter
from heapyard.report.figures.parts import NARROW, WIDE, fill
from heapyard.report.html import render
from heapyard.report.figures.label_layout import place_labels
from heapyard.report.standings import standings


def covered(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def around(centre: tuple[float, float], width: float, height: float) -> tuple[float, float, float, float]:
    return centre[0] - width / 2, centre[1] - height / 2, centre[0] + width / 2, centre[1] + height / 2


@pytest.mark.parametrize("count", [1, 5, 15])
def test_names_of_crowded_points_cover_neither_each_other_nor_a_point(count: int) -> None:
    points = [(300 + 9 * math.cos(i * 2.4) * i, 200 + 5 * math.sin(i * 2.4) * i) for i in range(count)]
    sizes = [(60.0 + 7 * (i % 8), 15.0) for i in range(count)]
    boxes = [around(c, *s) for c, s in zip(place_labels(points, sizes, (640, 420)), sizes, strict=True)]
    marks = [around(p, 10, 10) for p in points]
    assert not [(i, j) for i in range(count) for j in range(i) if covered(boxes[i], boxes[j])]
    assert not [(i, j) for i in range(count) for j in range(count) if covered(boxes[i], marks[j])]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 250), st.floats(0, 330)), max_size=15))
@example([(97.0, 0.0), (98.984375, 8.0)])
def test_names_stay_inside(points: list[tuple[float, float]]) -> None:
    sizes = [(90.0, 15.0)] * len(points)
    centres = place_labels(points, sizes, (250, 330))
    assert centres == place_labels(points, sizes, (250, 330))
    for centre in centres if len(points) < 8 else []:
        left, top, right, bottom = around(centre, 90, 15)
        assert left >= -1e-6 and top >= -1e-6 and right <= 250 + 1e-6 and bottom <= 330 + 1e-6


@pytest.mark.parametrize("shape", [WIDE, NARROW])
def test_every_point_is_in_the_picture_with_its_interval(shape: str) -> None:
    analysis, _ = simulate(13, 8)
    rows, scales = figure_scatter.scatter_rows(analysis.pareto, "glibc", shape)
    assert {r["treatment"] for r in rows} == set(analysis.treatments)
    for row in rows:
        for value, scale in ((row["x"], scales[0]), (row["y"], scales[1])):
            assert scale["domain"][0] < value < scale["domain"][1]
        assert row["xl"] <= row["x"] <= row["xh"] and row["yl"] <= row["y"] <= row["yh"]
    assert [r["treatment"] for r in rows if r["kind"] == "baseline"] == ["glibc"]
    assert {r["treatment"] for r in rows if r["front"]} == {p.treatment for p in analysis.pareto if p.on_front}


def test_a_description_is_filled_once_and_stays_reusable() -> None:
    spec = figure_forest.forest(["p"], ["a"], WIDE)
    filled = json.dumps(fill(spec, [], x="it's \"quoted\"", **figure_forest.band(0.02)))
    assert '"@' in json.dumps(spec) and '"@' not in filled
    assert json.loads(filled)["spec"]["layer"][0]["encoding"]["x2"] == {"datum": 1.02}


def test_a_failed_allocator_has_no_mark_and_its_place_says_so() -> None:
    analysis, record = simulate(3, 2, failing=1)
    broken = record.observations.failures[0]
    rows = page_data.forest_rows(analysis, "wall")
    assert {(r["program"], r["treatment"]) for r in rows if r["treatment"] == broken.treatment} == {
        ("program1", broken.treatment)
    }
    row = next(r for r in standings(analysis) if r.treatment == broken.treatment)
    assert row.failed_on == (broken.workload,) and row.places["wall"].verdicts.total() == 1
    entries = page_tables.program_tables(analysis, analysis.treatments)[0].rows
    assert dict(entries)[broken.treatment] == (None,) * len(analysis.metrics)


def test_standings_begin_with_the_least_time() -> None:
    analysis, _ = simulate(2, 3, noise=0.001, ratios={"jemalloc": (1.2, 1.0), "mimalloc": (0.8, 1.0)})
    assert [row.treatment for row in standings(analysis)] == ["mimalloc", "glibc", "jemalloc"]


def test_trials_keep_their_order_and_their_block() -> None:
    analysis, record = simulate(2, 2, 3)
    rows = [r for r in page_data.trial_rows(record, analysis.metrics) if r["program"] == "program0"]
    assert [r["trial"] for r in rows] == sorted(r["trial"] for r in rows)
    assert [r["place"] for r in rows] == sorted(r["place"] for r in rows)
    assert [r["round"] for r in rows] == [1] * 4 + [2] * 4 + [3] * 4
    assert all(r["round"] < r["place"] < r["round"] + 1 for r in rows)


def test_a_curve_is_that_of_the_median_trial_and_survives_a_missing_file() -> None:
    _, record = simulate(1, 1, 5)
    curves, unreadable = page_data.memory_curves(record, curve)
    assert {c["treatment"] for c in curves} == {"glibc", "jemalloc"} and unreadable == 0
    for shown in curves:
        times = sorted((t.metrics["wall"], t.id) for t in record.trials if t.treatment == shown["treatment"])
        assert shown["trial"] == times[2][1]

    def broken(name: str) -> page_data.Series:
        raise HeapyardError("gone")

    assert page_data.memory_curves(record, broken) == ([], 2)


def test_the_load_of_a_server_is_marked_on_its_curve() -> None:
    """Between samples, on the line; not before the first one, nor of a program without a load."""
    points = [(0.0, 0), (1.0, 100), (2.0, 300)]
    assert page_data.with_load(points, (0.5, 1.5)) == [(0.0, 0), (0.5, 50, 1), (1.0, 100), (1.5, 200, 1), (2.0, 300)]
    assert page_data.with_load(points, (0.0, 0.0)) == points and page_data.with_load([], (0.5, 1.5)) == []
    assert page_data.with_load(points, (0.5, 9.0)) == [(0.0, 0), (0.5, 50, 1), *points[1:]]
    _, record = simulate(1, 1, 3)
    record = replace(record, trials=tuple(replace(t, loaded=(0.005, 0.015)) for t in record.trials))
    curves, _ = page_data.memory_curves(record, lambda _: [(0.0, 1 << 20, -1), (0.01, 2 << 20, -1), (0.02, 2 << 20, -1)])
    assert [row["seconds"] for row in page_data.memory_points(curves[:1], "glibc", "") if row["mark"]] == [0.005, 0.015]


@given(st.lists(st.integers(0, 1 << 40), max_size=1000))
def test_thinning_keeps_peaks_and_ends(sizes: list[int]) -> None:
    series = [(i / 100, size, -1) for i, size in enumerate(sizes)]
    kept = page_data.thinned(series)
    assert len(kept) <= page_data.MOST_POINTS + 2 and set(kept) <= {(t, rss) for t, rss, _ in series}
    if sizes:
        assert max(rss for _, rss in kept) == max(sizes)
        assert kept[0] == (0.0, sizes[0]) and kept[-1][1] == sizes[-1]


def test_large_experiments_keep_the_first_metrics() -> None:
    analysis, record = simulate(2, 2, 2)
    assert page_data.trial_metrics(record, analysis) == analysis.metrics
    whole = page_data.MOST_NUMBERS
    try:
        page_data.MOST_NUMBERS = 2 * len(page_data.counted(record))
        assert page_data.trial_metrics(record, analysis) == analysis.metrics[:2]
    finally:
        page_data.MOST_NUMBERS = whole


def test_a_usual_experiment_makes_a_page_of_usual_size() -> None:
    analysis, record = simulate(7, 8, 10)
    page = render(analysis, record, series=curve)
    assert len(page.encode()) < 1_700_000
    ids = re.findall(r'\bid="([^"]+)"', re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))
    assert len(ids) == len(set(ids))

# SPDX-License-Identifier: Apache-2.0
"""A study's figures in every form of the answer: axes, units, uncertainty, widths, and what is told of levels."""

from __future__ import annotations

import io
import json
import math
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from simulated import as_study, curve, simulate

from heapyard.model.analysis import Analysis, CurvePoint, Curves, Interval
from heapyard.model.figure import Figure
from heapyard.model.metrics import METRICS
from heapyard.model.record import Record
from heapyard.report.curves.axes import ASIDE, levels_axis, levels_shown, oversubscribed_from, reach
from heapyard.report.curves.tables import curve_table, curve_tables, heading, widest
from heapyard.report.curves.units import Readable, readable
from heapyard.report.figures.label_layout import GAP, edge_places
from heapyard.report.figures.curves import LONGEST, draw, shortened
from heapyard.report.figures.parts import NARROW, WIDE
from heapyard.report.html import render, svg
from heapyard.report.json_answer import answer
from heapyard.report.markdown import markdown
from heapyard.report.terminal import print_answer
from heapyard.report.workload_names import short_names

NAMES = [f"allocator{i}" for i in range(12)]


def made(
    values: dict[str, dict[str, float]], *, share: float = 0.1, processors: int = 0, metric: str = "wall", **how: object
) -> Curves:
    """Curves of treatment -> level -> mean, with intervals of `share` to both sides."""
    levels = tuple(dict.fromkeys(level for row in values.values() for level in row))
    points = tuple(
        CurvePoint(t, level, Interval(v, v * (1 - share), v * (1 + share)), 5, f"w {level}", 0 < processors < float(level))
        for t, row in values.items()
        for level, v in row.items()
    )
    return Curves(Figure("Title", metric, "threads", "a paper", **how), levels, points)  # type: ignore[arg-type]


def printed(analysis: Analysis, record: Record, width: int = 80, *, verbose: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, _environ={})
    print_answer(console, analysis, record, verbose=verbose)
    return console.file.getvalue()  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------- every form


def test_a_study_shows_its_figures_in_every_form() -> None:
    analysis, record = as_study(simulate(6, 5, 6)[1])
    text = printed(analysis, record, verbose=True)
    assert max(map(len, text.splitlines())) <= 80
    for words in ("Time (a paper, Figure 1), ms; lower is better", "Relative, ratio to glibc; lower is better"):
        assert words in text, words
    assert re.search(r"threads +1 +2 +4 +8 +16 +±\n", text)
    assert "From 4 threads on there are more threads than processors." in text
    assert "Nothing" not in text, "a figure of what was not measured"
    as_text = markdown(analysis, record)
    assert "| threads | 1 | 2 | 4 | 8 | 16 |" in as_text and "From 4 threads on" in as_text
    said = json.loads(json.dumps(answer(analysis, record), allow_nan=False))
    assert [c["figure"]["metric"] for c in said["figures"]] == ["wall", "peak_rss", "wall", "wall", "moon"]
    assert set(said["figures"][0]["points"][0]) == {"treatment", "level", "mean", "blocks", "workload", "oversubscribed"}
    page = render(analysis, record, series=curve)
    assert page.count('<figure class="drawn curves">') == 4 and "more threads than processors" in page


def test_tables_by_workload_stand_behind_the_first_screen() -> None:
    analysis, record = as_study(simulate(4, 9, 3)[1])
    by_workload = f"Wall time by {analysis.workload_noun}"
    assert by_workload not in printed(analysis, record) and by_workload in printed(analysis, record, verbose=True)
    assert by_workload not in markdown(analysis, record)
    plain, plain_record = simulate(4, 9, 3)
    by_program = f"Wall time by {plain.workload_noun}"
    assert by_program in printed(plain, plain_record, verbose=True) and by_program in markdown(plain, plain_record)


@pytest.mark.parametrize(
    ("workloads", "short", "factor"),
    [
        (["acdc threads=1", "acdc threads=16"], ["1", "16"], "threads"),
        (["acdc size=8 threads=1", "acdc size=8 threads=2"], ["1", "2"], "threads"),
        (["acdc size=8 threads=1", "acdc size=9 threads=2"], ["size=8 threads=1", "size=9 threads=2"], ""),
        (["redis", "sqlite"], ["redis", "sqlite"], ""),
        (["my program", "my other program"], ["my program", "my other program"], ""),
        (["alone"], ["alone"], ""),
        (["a =", "a x=2"], ["=", "x=2"], ""),
    ],
)
def test_what_workloads_share_is_said_once(workloads: list[str], short: list[str], factor: str) -> None:
    assert short_names(workloads) == (short, factor)


@given(st.integers(20, 160), st.integers(1, 14), st.integers(1, 9))
@settings(max_examples=25, deadline=None)
def test_tables_of_figures_fit_any_terminal(width: int, allocators: int, programs: int) -> None:
    analysis, record = as_study(simulate(allocators, programs, 2)[1])
    width = max(width, 40)
    assert max(map(len, printed(analysis, record, width, verbose=True).splitlines())) <= width


# ---------------------------------------------------------------------------------------------- numbers


def test_the_last_column_is_the_widest_half_of_an_interval() -> None:
    analysis, record = as_study(simulate(2, 5, 6)[1])
    table = curve_tables(analysis)[0]
    known = [
        max((p.mean.high - p.mean.low) / 2 / p.mean.ratio for p in analysis.curves[0].points if p.treatment == t)
        for t, _ in table.rows
    ]
    assert [max(halves) for halves in table.halves] == pytest.approx(known)
    below = printed(analysis, record, verbose=True).partition("Time (a paper, Figure 1)")[2]
    row = next(line for line in below.splitlines() if line.startswith("jemalloc"))
    names = [t for t, _ in table.rows]
    assert row.rstrip().endswith(widest(table.halves[names.index("jemalloc")]))


def test_half_an_interval_in_words() -> None:
    assert widest((0.01, 0.048)) == "4.8 %" and widest((25.0,)) == "> 999 %"
    assert widest((0.01, math.inf)) == "?" and widest((math.nan,)) == "" and widest((math.nan, 0.02)) == "2.0 %"


def test_one_block_and_no_measurement_are_told_from_an_interval() -> None:
    point = CurvePoint("a", "1", Interval(0.5, 0.0, math.inf), 1, "w")
    nought = CurvePoint("a", "2", Interval(0.0, 0.0, 0.0), 4, "w")
    open_ = CurvePoint("b", "1", Interval(0.5, 0.1, math.inf), 2, "w")
    table = curve_table(Curves(Figure("t", "wall", "size"), ("1", "2"), (point, nought, open_)), "a")
    assert dict(table.rows) == {
        "a": (("500", "one block"), ("0.00", "0.00 to 0.00")),
        "b": (("500", "100 or more"), ("", "")),
    }
    assert widest(table.halves[0]) == "?" and heading(table) == "t, ms; lower is better"


@pytest.mark.parametrize(
    ("metric", "value", "shown"),
    [
        ("wall", 2e-9, ("2.00", "ns")),
        ("wall", 0.0123, ("12.3", "ms")),
        ("wall", 3.0, ("3.00", "s")),
        ("peak_rss", 100.0, ("100", "B")),
        ("peak_rss", 5 * 2.0**20, ("5.00", "MiB")),
        ("peak_rss", 3000 * 2.0**30, ("3,000", "GiB")),
        ("minor_faults", 1234567.0, ("1,234,567", "")),
    ],
)
def test_units_are_those_people_read(metric: str, value: float, shown: tuple[str, str]) -> None:
    found = readable(made({"a": {"1": value}}, metric=metric), METRICS[metric])
    assert (found.show(value), found.name) == shown


# ---------------------------------------------------------------------------------------------- axes


def test_levels_stand_to_scale_or_side_by_side() -> None:
    row = dict.fromkeys(("1", "2", "4", "8"), 1.0)
    linear = levels_axis(made({"a": row}), 1, 400).places
    logarithmic = levels_axis(made({"a": row}, log_x=True), 1, 400).places
    named = levels_axis(made({"a": {"small": 1.0, "large": 1.0, "huge": 1.0}}), 1, 400).places
    gaps = [b - a for a, b in pairwise(linear.values())]
    assert gaps == pytest.approx([gaps[0], 2 * gaps[0], 4 * gaps[0]])
    for even in (logarithmic, named):
        gaps = [b - a for a, b in pairwise(even.values())]
        assert gaps == pytest.approx([gaps[0]] * len(gaps)) and gaps[0] > 0
    assert list(named) == ["small", "large", "huge"], "in the study's order"
    assert levels_axis(made({"a": {"0": 1.0, "5": 1.0}}, log_x=True), 1, 400).places, "nought has no logarithm"


def test_levels_read_as_people_write_numbers() -> None:
    curves = made({"a": dict.fromkeys(("0.25", "64", "1024", "1600000", "1e15"), 1.0)})
    assert levels_shown(curves) == ["0.25", "64", "1,024", "1,600,000", "1e+15"]


@given(st.lists(st.integers(0, 4096), min_size=1, max_size=12, unique=True), st.integers(1, 14), st.booleans())
def test_treatments_step_aside_without_reaching_another_level(levels: list[int], treatments: int, log: bool) -> None:
    axis = levels_axis(made({"a": {str(i): 1.0 for i in levels}}, log_x=log), treatments, 300)
    assert 0 < axis.step <= ASIDE
    spans = sorted((axis.place(str(i), 0, treatments), axis.place(str(i), treatments - 1, treatments)) for i in levels)
    assert spans[0][0] >= 0 and spans[-1][1] <= 300
    assert all(right < left for (_, right), (left, _) in pairwise(spans))


def test_the_response_is_logarithmic_where_it_spans_much_and_begins_at_nought_otherwise() -> None:
    unit = Readable("s", 1.0)
    near = reach(made({"a": {"1": 1.0, "2": 49.0}}), unit)
    far = reach(made({"a": {"1": 1.0, "2": 51.0}}), unit)
    asked = reach(made({"a": {"1": 1.0, "2": 2.0}}, log_y=True), unit)
    nought = reach(made({"a": {"1": 0.0, "2": 51.0}}), unit)
    assert (near.log, near.low) == (False, 0.0) and far.log and far.low < 1.0 and asked.log and not nought.log


def test_ratios_that_lie_close_together_fill_the_height() -> None:
    unit = Readable("", 1.0)
    near = reach(made({"a": {"1": 1.0, "2": 0.9}}, relative=True), unit)
    far = reach(made({"a": {"1": 1.0, "2": 4.0}}, relative=True), unit)
    assert 0.8 < near.low < 0.9 and far.low == 0.0


@pytest.mark.parametrize("how", [{}, {"log_y": True}])
def test_the_name_of_the_band_has_room_above_every_curve(how: dict[str, bool]) -> None:
    curves = made({"a": {"1": 3.0, "4": 5.0}}, share=0.0, **how)
    ends = reach(curves, Readable("s", 1.0), 0.2)
    assert ends.place(5.0, 100) < 80 < reach(curves, Readable("s", 1.0)).place(5.0, 100)


def test_one_wild_interval_does_not_flatten_all_curves() -> None:
    calm = made({"a": {"1": 1.0, "2": 2.0}})
    wild = CurvePoint("b", "1", Interval(1.0, 0.001, 1000.0), 2, "w")
    ends = reach(Curves(calm.figure, calm.levels, (*calm.points, wild)), Readable("s", 1.0))
    assert ends.high < 4.0
    rows = draw(Curves(calm.figure, calm.levels, (*calm.points, wild)), "a", WIDE)["datasets"]["rows"]
    assert all(ends.low <= row["low"] <= row["y"] <= row["high"] <= 1000 for row in rows)


def test_more_threads_than_processors_are_marked_only_where_that_is_so() -> None:
    row = dict.fromkeys(("1", "2", "4", "8"), 1.0)
    assert oversubscribed_from(made({"a": row}, processors=2)) == "4"
    assert oversubscribed_from(made({"a": row}, processors=8)) is None
    assert oversubscribed_from(made({"a": {"4": 1.0}}, processors=2)) == "4"
    sizes = made({"a": row}, processors=2)
    other = Curves(Figure("t", "wall", "size"), sizes.levels, sizes.points)
    assert oversubscribed_from(other) is None, "the levels are not numbers of threads"
    for shape in (WIDE, NARROW):
        picture = svg(draw(made({"a": row}, processors=2), "a", shape), "x")
        assert "processors" in picture and "processors" not in svg(draw(other, "a", shape), "x")


# ---------------------------------------------------------------------------------------------- the picture


def test_a_dozen_curves_are_told_apart_without_colour() -> None:
    values = {n: {"1": 1.0 + i / 9, "2": 2.0 + i / 9} for i, n in enumerate(NAMES)}
    picture = svg(draw(made(values), "allocator3", WIDE), "x")
    for name in NAMES:
        assert len(re.findall(rf">{name}<", picture)) == 1, "each curve has its name once"
    spec = draw(made(values), "allocator3", WIDE)
    points = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "point")["encoding"]
    looks = list(zip(points["shape"]["scale"]["range"] * 2, points["color"]["scale"]["range"], strict=False))
    assert len(set(looks)) == 12 and looks[3][1] == "var(--ink)", "the baseline is drawn in ink"


@pytest.mark.parametrize("shape", [WIDE, NARROW])
def test_a_figure_of_very_many_curves_grows_until_its_names_fit(shape: str) -> None:
    spec = draw(made({f"a{i}": {"1": 1.0, "2": 1.0 + i / 1000} for i in range(40)}), "a0", shape)
    places = [row["py"] for layer in spec["layer"] for row in layer.get("data", {}).get("values", [])]
    assert len(places) == 80 and min(places) >= 0 and max(places) <= spec["height"]


def test_long_names_keep_what_tells_variants_apart() -> None:
    variants = ["hardened_malloc-light", "hardened_malloc", "jemalloc:narenas=1,lg_tcache_max=13", "short"]
    for longest in LONGEST.values():
        found = [shortened(name, longest) for name in variants]
        assert len(set(found)) == 4 and max(map(len, found)) <= longest and found[3] == "short"


def test_axes_name_unit_and_direction() -> None:
    picture = svg(draw(made({"a": {"1": 0.002, "2": 0.004}}), "a", WIDE), "x")
    assert "(ms; lower is better)" in picture and ">threads<" in picture and ">1<" in picture and ">2<" in picture
    assert "(s, log scale; lower is better)" in svg(draw(made({"a": {"1": 0.01, "2": 9.0}}), "a", NARROW), "x")


def test_names_that_would_be_code_are_words() -> None:
    hostile = "a'] + alert(1) + ['\"\\</text><script>"
    values = {hostile: {hostile: 1.0, "b": 2.0}}
    picture = svg(draw(made(values), hostile, WIDE), "x")
    assert "<script>" not in picture and "alert(1)" in picture


@given(st.lists(st.floats(0, 300), min_size=1, max_size=21))
def test_names_at_the_edge_never_overlap(wanted: list[float]) -> None:
    places = edge_places(wanted, 300)
    order = sorted(places)
    assert all(b - a >= GAP - 0.01 for a, b in pairwise(order)) and order[0] >= -0.01 and order[-1] <= 300.01
    assert sorted(range(len(wanted)), key=lambda i: (wanted[i], i)) == sorted(range(len(wanted)), key=lambda i: places[i])


def test_names_that_have_room_stand_at_the_ends_of_their_curves() -> None:
    assert edge_places([10.0, 200.0, 100.0], 300) == [10.0, 200.0, 100.0]

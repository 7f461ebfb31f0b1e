# SPDX-License-Identifier: Apache-2.0
"""Curves of figures on simulated studies whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_rounds import CONTROL, LEVELS, SPEEDS, by_speed, study

from heapyard.model.analysis import Curves
from heapyard.model.figure import Figure
from heapyard.model.observations import Failure, Observations
from heapyard.stats.curves import curves_of
from heapyard.stats.tables import tables


def test_curves_hold_the_truth() -> None:
    figures = (
        Figure("plain", "wall", "x"),
        Figure("relative", "wall", "x", relative=True),
        Figure("absent", "moon", "x"),
        Figure("one", "wall", "threads", at={"x": "4"}),
    )
    observations = study(by_speed, figures=figures, processors=4)
    plain, relative, absent, one = curves_of(observations, tables(observations))
    assert plain.levels == LEVELS and plain.numeric and len(plain.points) == 15
    for point in plain.points:
        truth = by_speed(float(point.level), point.treatment)
        assert point.mean.ratio == pytest.approx(truth, rel=0.1) and point.mean.low < point.mean.ratio < point.mean.high
        assert point.oversubscribed == (float(point.level) > 4) and point.blocks == 8
    for point in relative.points:
        assert point.mean.ratio == pytest.approx(SPEEDS[point.treatment], rel=0.03)
    assert not absent.points and [p.level for p in one.points] == ["4"] * 3


def test_intervals_of_curves_cover_the_truth() -> None:
    """Of 400 curves' points about 380 intervals hold the truth (the drift of a round is part of their noise)."""
    figure = (Figure("relative", "wall", "x", relative=True),)
    inside = 0
    for seed in range(200):
        observations = study(by_speed, figures=figure, seed=seed, levels=("1",), rounds=6)
        (curves,) = curves_of(observations, tables(observations))
        inside += sum(p.mean.low < SPEEDS[p.treatment] < p.mean.high for p in curves.points if p.treatment != "base")
    assert 365 <= inside <= 393, inside


def at_two_sizes(eight: float, sixty_four: float) -> Observations:
    """One level of x at two sizes, with these values under every treatment; a figure over x that fixes no size."""
    levels = {f"m size={size}": {"size": size, "x": "1"} for size in ("8", "64")}
    parts = [study(lambda *_, value=value: value, levels=("1",), noise=0.0) for value in (eight, sixty_four)]
    rows = tuple(
        replace(row, workload=workload, block=row.block + 100 * number)
        for number, (workload, part) in enumerate(zip(levels, parts, strict=True))
        for row in part.rows
    )
    return replace(parts[0], workloads=tuple(levels), levels=levels, rows=rows, figures=(Figure("", "wall", "x"),))


def only_figure(observations: Observations) -> Curves:
    (curves,) = curves_of(observations, tables(observations))
    return curves


def test_a_point_stands_for_all_workloads_of_its_level() -> None:
    """A treatment that failed at one size has no mean over both."""
    both = at_two_sizes(1.0, 4.0)
    failed = replace(both, failures=(Failure("m size=64", "one", 1, 8, "signal", "crash"),))
    assert [(p.treatment, p.mean.ratio) for p in only_figure(both).points] == [
        (name, pytest.approx(2.0)) for name in ("base", "one", "two")
    ]
    assert [p.treatment for p in only_figure(failed).points] == ["base", "two"]


def test_zeros_at_one_size_put_both_on_one_scale() -> None:
    """ln(value + 1 ms) and back, also for the size that has no zero."""
    for values in ((0.0, 1.0), (1.0, 0.0)):
        assert only_figure(at_two_sizes(*values)).points[0].mean.ratio == pytest.approx((0.001 * 1.001) ** 0.5 - 0.001)


def test_nothing_measured_gives_no_points_and_one_block_no_bounds() -> None:
    figures = (Figure("", "wall", "x"),)
    whole = study(by_speed, figures=figures, rounds=1)
    points = only_figure(whole).points
    assert len(points) == 15 and all((p.mean.low, p.mean.high) == (0, float("inf")) for p in points)
    labels = (*whole.treatments, CONTROL)
    everywhere = tuple(Failure(w, t, 1, 1, "signal", "crash") for w in whole.workloads for t in labels)
    failed = replace(whole, failures=everywhere)
    assert only_figure(failed).points == ()
    assert curves_of(replace(whole, figures=()), tables(whole)) == ()

# SPDX-License-Identifier: Apache-2.0
"""What a reader must know besides the numbers, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..model.analysis import Cell, Comparison, Interval, Overall
from ..model.experiment import Settings
from ..model.leading import CHARGED, GROUP_CHARGED
from ..model.machines import Machines
from ..model.metrics import PRIMARY_TIME, metric_named
from ..model.observations import Observations
from .contrasts import MODERATED
from .robust import hodges_lehmann
from .scale import margin_of, scale_for
from .slices_apart import cost_of_slices, ratios_apart, slice_lengths
from .tables import Table, excluded

SHOWN = 3  # of ratios that are others elsewhere, the furthest first
COLD = 0.03  # of CPU time that slices add, from which it is told
RARE = 0.25  # of a trial's time without a look, in the median trial: a quarter of its life nobody knows


def notes_on(
    observations: Observations, tables: Sequence[Table], cells: Sequence[Cell], overall: Sequence[Overall],
    machines: Machines | None = None,
) -> tuple[str, ...]:  # fmt: skip
    """What machines change, what was left out, what slices did, precision missed, method, second opinions, scale: in this order."""
    return (
        *_pooled(machines, observations.settings),
        *_left_out(observations, tables, overall),
        *_slices(tables, observations),
        *_precision(cells, observations.settings),
        *_scatter(cells),
        *_second_opinion(tables, cells, observations),
        *_unseen(observations),
        *_account(cells, observations.settings),
        *_zeros(tables),
    )


def _pooled(machines: Machines | None, settings: Settings) -> Iterator[str]:
    for metric in (settings.time_metric, settings.memory_metric):
        if machines is None:
            continue
        if moved := machines.depends(metric):
            yield (
                f"{_title(metric)}: the ratio of {_list(moved)} depends on the machine. Where one over all machines stands, it is "
                "a mean over these machines, each weighing as its blocks, and its interval holds for no single one."
            )
        single = sorted(machines.depends_on_one_workload(metric), key=lambda i: -i.largest.ratio)
        if single:
            told = [
                f"{i.treatment} on {i.workload}, {min(i.ratios):.3f} on {i.low} and {max(i.ratios):.3f} on {i.high}"
                for i in single[:SHOWN]
            ]
            more = f"; and {len(single) - SHOWN} more" if len(single) > SHOWN else ""
            yield (
                f"{_title(metric)}: tables of a single program pool machines on which the ratio is another: "
                f"{'; '.join(told)}{more}."
            )


def _left_out(observations: Observations, tables: Sequence[Table], overall: Sequence[Overall]) -> Iterator[str]:
    out = excluded(observations)
    for workload in observations.workloads:
        if observations.baseline in out.get(workload, ()):
            yield f"{workload}: the baseline {observations.baseline} failed, so nothing is compared there."
        elif observations.rows and not any(t.workload == workload for t in tables):
            yield f"{workload}: no block was completed."
    for one in overall:
        if one.metric not in _primary(observations):
            continue
        missing = [w for w in observations.workloads if w not in one.workloads]
        dropped = [
            t
            for t in observations.treatments
            if t not in (observations.baseline, observations.control, *(c.treatment for c in one.comparisons))
        ]
        if missing or dropped:
            without = f" Without {_list(missing)}, where not every treatment counted." if missing else ""
            left = f" {_list(dropped)} counted on too few programs to be included." if dropped else ""
            counted = f"{len(one.workloads)} of {len(observations.workloads)}"
            yield (f"{_title(one.metric)} over all programs runs over {counted}.{without}{left}")


def _slices(tables: Sequence[Table], observations: Observations) -> Iterator[str]:
    """Whose times come from slices, what that cost, and where a ratio is another one than that of whole trials."""
    settings, baseline = observations.settings, observations.baseline
    cost = cost_of_slices(tables, baseline)
    if not cost:
        return
    whole = [w for w in observations.workloads if w not in cost]
    but = f" but {_list(whole)}" if whole else ""
    lengths = slice_lengths(observations)
    yield (
        f"Times of every program{but} come from trials that ran by turns, in slices of {lengths}; memory comes from whole "
        "trials."
    )
    if dear := [f"{w} {ratio - 1:+.0%}" for w, ratio in cost.items() if ratio > 1 + COLD]:
        yield f"Slices begin with cold caches: CPU time under {baseline} beside that of whole trials is {_list(dear)}."
    for apart in ratios_apart(tables, baseline, settings):
        yield (
            f"{apart.workload} under {apart.treatment}: the ratio in slices is {apart.in_slices:.3f}, that of whole trials "
            f"{apart.alone:.3f}; they differ by a factor of {apart.low:.3f} to {apart.high:.3f}. For this program "
            "--interleave trials decides."
        )


def _precision(cells: Sequence[Cell], settings: Settings) -> Iterator[str]:
    limit = 1.05 * settings.precision  # what a planned number of blocks may miss by chance is not worth a note
    missed = [
        c
        for c in cells
        if c.metric == settings.time_metric and len(c.summaries) > 1 and c.half_width > limit and _still_open(c, settings)
    ]
    if missed:
        reached = ", ".join(
            f"{c.workload} " + (f"±{c.half_width:.1%}" if c.blocks > 1 else "one block") for c in missed
        )
        yield (
            f"The wanted half-width of ±{settings.precision:.1%} of a {_title(settings.time_metric)} ratio "
            f"was not reached: {reached}."
        )


def _still_open(cell: Cell, settings: Settings) -> bool:
    """With looks, a program on which all is settled is left before it is as precise as the others."""
    return not settings.looks or any(c.verdict == "undecided" for c in cell.comparisons)


def _scatter(cells: Sequence[Cell]) -> Iterator[str]:
    unequal = sum(c.method == MODERATED for c in cells)
    if unequal:
        yield (
            f"In {unequal} of {len(cells)} combinations of program and metric the treatments scatter unequally; "
            "there every pair is judged by its own scatter, moderated by that of the others, with Bonferroni's and Holm's "
            "corrections."
        )


def _second_opinion(tables: Sequence[Table], cells: Sequence[Cell], observations: Observations) -> Iterator[str]:
    """Where a rank-based analysis would not support the model's claim, or makes one that the model does not."""
    settings = observations.settings
    for whole, cell in zip(tables, cells, strict=True):
        if cell.metric not in _primary(observations):
            continue
        metric = metric_named(cell.metric)
        margin = margin_of(metric, settings)
        for comparison in cell.comparisons:
            table = whole.longest(comparison.treatment)
            y = scale_for(metric, table.values).forward(table.values)
            base = y[:, table.labels.index(observations.baseline)]
            ranks = hodges_lehmann(
                y[:, table.labels.index(comparison.treatment)] - base, confidence=settings.confidence
            )
            if not np.isfinite(ranks.high) or not _disagrees(comparison, ranks, margin):
                continue
            yield (
                f"{cell.workload}, {metric.title}, {comparison.treatment}: the model says {comparison.verdict} "
                f"({_show(comparison.interval)}), ranks give {_show(ranks)}; look at the single trials."
            )


def _unseen(observations: Observations) -> Iterator[str]:
    """Where looks may have missed more charged memory than the margin, or were too rare to tell."""
    if observations.settings.memory_metric != CHARGED:
        return
    limit = observations.settings.margin_memory
    if fast := _shares(observations, "charged_error", CHARGED, limit):
        yield f"Page tables grew fast between two looks: so much of {_title(CHARGED)} may be unseen: {fast}."
    if rare := _shares(observations, "sample_gap", PRIMARY_TIME, RARE):
        yield (
            "Looks were rare: page tables that came and went in the longest gap between two are not in "
            f"{_title(CHARGED)}. That gap, as a share of the time: {rare}."
        )


def _shares(observations: Observations, part: str, whole: str, limit: float) -> str:
    """Workloads where `part` is more than `limit` of `whole` in the median trial, each with that share."""
    wholes = {(r.workload, r.block, r.treatment): r.value for r in observations.rows if r.metric == whole}
    found: dict[str, list[float]] = {}
    for row in observations.rows:
        if row.metric == part and (of := wholes.get((row.workload, row.block, row.treatment), 0)) > 0:
            found.setdefault(row.workload, []).append(row.value / of)
    medians = {workload: float(np.median(shares)) for workload, shares in found.items()}
    return _list([f"{workload} {share:.0%}" for workload, share in medians.items() if share > limit])


def _account(cells: Sequence[Cell], settings: Settings) -> Iterator[str]:
    """Where the kernel's account of the trials' control groups gives another ratio than the sum over processes."""
    by_group = [c for c in cells if c.metric == GROUP_CHARGED]
    groups = {(c.workload, one.treatment): one.interval for c in by_group for one in c.comparisons}
    apart: list[tuple[float, str]] = []
    for cell in (c for c in cells if c.metric == CHARGED):
        for one in cell.comparisons:
            other = groups.get((cell.workload, one.treatment))
            if other is None or (other.low <= one.interval.high and one.interval.low <= other.high):
                continue
            distance = abs(float(np.log(other.ratio / one.interval.ratio)))
            if distance > np.log1p(settings.margin_memory):
                told = f"{cell.workload}, {one.treatment} {other.ratio:.3f} instead of {one.interval.ratio:.3f}"
                apart.append((distance, told))
    if apart:
        worst = [told for _, told in sorted(apart, reverse=True)[:SHOWN]]
        more = f"; and {len(apart) - SHOWN} more" if len(apart) > SHOWN else ""
        yield (
            f"The kernel's account of control groups gives other ratios of {_title(CHARGED)}: {'; '.join(worst)}{more}. "
            "It counts shared pages once, and the kernel's own memory."
        )


def _disagrees(comparison: Comparison, ranks: Interval, margin: float) -> bool:
    includes_one = ranks.low <= 1 <= ranks.high
    beyond = ranks.low > 1 + margin or ranks.high < 1 / (1 + margin)
    return includes_one if comparison.verdict in ("better", "worse") else beyond and comparison.verdict == "equivalent"


def _zeros(tables: Sequence[Table]) -> Iterator[str]:
    zeros = sorted({t.metric for t in tables if metric_named(t.metric).scale == "log" and bool((t.values <= 0).any())})
    if zeros:
        was, it = ("was", "it is") if len(zeros) == 1 else ("were", "they are")
        names = _list([_title(name) for name in zeros])
        yield f"{names} {was} zero in some trials; there {it} analysed as ln(value + one unit of resolution)."


def _primary(observations: Observations) -> tuple[str, str]:
    return observations.settings.time_metric, observations.settings.memory_metric


def _title(metric: str) -> str:
    return metric_named(metric).title


def _show(interval: Interval) -> str:
    return f"{interval.ratio:.3f}, {interval.low:.3f} to {interval.high:.3f}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)

# SPDX-License-Identifier: Apache-2.0
"""The A/A control: the baseline against itself, which must not differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from ..model.analysis import Cell, Comparison, ControlCheck, Overall
from ..model.experiment import Settings
from ..model.machines import Machines
from ..model.metrics import metric_named
from .scale import margin_of
from .tables import Table


def number_of_checks(tables: Sequence[Table], control: str, primary: tuple[str, str]) -> int:
    """How many checks there are: every cell of the `primary` metrics and, where there are several of a metric, their mean."""
    checked = [table.metric for table in tables if table.metric in primary and control in table.labels]
    return len(checked) + sum(checked.count(metric) > 1 for metric in primary)


def check_control(cells: Sequence[Cell], overall: Sequence[Overall], settings: Settings) -> ControlCheck:
    """Where the baseline differs from itself, corrected over all checks: an honest machine is flagged in at most
    1 - confidence of experiments, however many cells there are.

    Such a difference misleads if it is beyond the margin, or if one as small is claimed of an allocator in the same place.
    """
    primary = (settings.time_metric, settings.memory_metric)
    checked = [*_checked(cells, overall, primary)]
    flagged = [(c, claimed) for c, claimed in checked if c.p_value < 1 - settings.confidence]
    misleads = tuple(
        (c.workload, c.metric)
        for c, claimed in flagged
        if _size(c) > math.log1p(margin_of(metric_named(c.metric), settings)) or any(_size(c) >= _size(o) for o in claimed)
    )
    noise = [c.residual_cv for c in cells if c.metric == primary[0] and not math.isnan(c.residual_cv)]
    return ControlCheck(
        len(checked),
        tuple((c.workload, c.metric) for c, _ in flagged),
        median(noise) if noise else math.nan,
        misleads,
        next((_size_without_belief(o) for o in overall if o.metric == primary[0] and o.control), math.nan),
    )


def within_machines(check: ControlCheck, machines: Machines | None, time: str) -> ControlCheck:
    """With the noise within machines, and where ratios depend on the machine the largest size of one kind: what machines change
    is no noise."""
    if machines is None:
        return check
    noise, size = machines.noise(time), check.size
    if machines.depends(time):
        sizes = [_size_without_belief(o) for kind in machines.kinds if (o := kind.over_all(time)) is not None and o.control]
        size = max((s for s in sizes if not math.isnan(s)), default=size)
    return replace(check, noise=check.noise if math.isnan(noise) else noise, size=size)


def _checked(
    cells: Sequence[Cell], overall: Sequence[Overall], primary: tuple[str, str]
) -> Iterator[tuple[Comparison, list[Comparison]]]:
    """Each check with the differences that are claimed in the same place."""
    places: list[Cell | Overall] = [*cells, *(o for o in overall if len(o.workloads) > 1)]
    for place in places:
        if place.metric in primary and place.control is not None:
            yield place.control, [c for c in place.comparisons if c.verdict in ("better", "worse")]


def _size(comparison: Comparison) -> float:
    """Of the difference, as an absolute logarithm; inf where the ratio is nought."""
    ratio = comparison.interval.ratio
    return abs(math.log(ratio)) if ratio > 0 else math.inf


def _size_without_belief(overall: Overall) -> float:
    """The larger of two sizes, as ratio minus one: what the two copies differ by, and the least that any comparison could show,
    half of its simultaneous interval."""
    seen = math.expm1(min(_size(overall.control), 700.0)) if overall.control else math.nan
    halves = [
        math.sqrt(c.simultaneous.high / c.simultaneous.low) - 1
        for c in overall.comparisons
        if c.simultaneous.low > 0 and math.isfinite(c.simultaneous.high)
    ]
    return max(seen, min(halves)) if halves else math.nan

# SPDX-License-Identifier: Apache-2.0
"""Do the trials of one treatment fall into two groups? Services can settle in one of two states, whatever the allocator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..model.analysis import Modes
from ..model.experiment import Settings
from ..model.metrics import metric_named
from .scale import margin_of, scale_for
from .tables import Table

LEVEL = 0.05  # of all treatments of a table together
LEAST = 6  # trials: of fewer no split is told
LEAST_IN_ONE = 2  # trials in the smaller group: a single one is an outlier
EXPLAINED = 0.5  # of the distance between the groups, from which it is the blocks' and cancels


UNDER_LOAD = ("request_rate", "steady_rss")  # what only servers have


def modes_under_load(tables: Sequence[Table], baseline: str, control: str, settings: Settings) -> tuple[Modes, ...]:
    """Of each server, in the response that the verdict speaks of; of a time per request, in the rate that it comes from."""
    metric = "request_rate" if settings.time_metric == "time_per_request" else settings.time_metric
    servers = {table.workload for table in tables if table.metric in UNDER_LOAD}
    found = (modes_of(t, baseline, control, settings) for t in tables if t.metric == metric and t.workload in servers)
    return tuple(modes for modes in found if modes is not None)


def modes_of(table: Table, baseline: str, control: str, settings: Settings) -> Modes | None:
    """The treatment whose trials fall most clearly into two groups, if Hartigan's dip test finds any unimodal law wanting.

    The test runs on the logarithms of each treatment's trials; the control's are the baseline's. Fisher's method joins the
    treatments, since what a service does it does under each. Its error is at most LEVEL for any law with one mode, and far
    less for bell-shaped ones. Two groups that are blocks as a whole do not count: all treatments share them. Block effects
    as large as the distance of the groups hide them. O(blocks x labels + labels x n log n).
    """
    scale = scale_for(metric_named(table.metric), table.values)
    y = scale.forward(table.values)
    found = [one for label, columns in _groups(table, baseline, control) if (one := _dip(y, label, columns)) is not None]
    if not found or _fisher([p for p, _, _ in found]) > LEVEL:
        return None
    margin = math.log1p(margin_of(metric_named(table.metric), settings))
    apart = [(p, label, columns) for p, label, columns in found if _apart(y, columns, margin)]
    if not apart:
        return None
    p, label, columns = min(apart, key=lambda one: one[0])
    ordered = np.sort(y[:, columns].ravel())
    cut = _cut(ordered)
    return Modes(
        workload=table.workload,
        metric=table.metric,
        treatment=label,
        low=scale.back(float(ordered[:cut].mean())),
        high=scale.back(float(ordered[cut:].mean())),
        in_low=cut,
        in_high=len(ordered) - cut,
        p=p,
        others=tuple(other for one, other, _ in apart if other != label and one <= LEVEL),
    )


def _groups(table: Table, baseline: str, control: str) -> Iterator[tuple[str, list[int]]]:
    """Columns by treatment."""
    for at, label in enumerate(table.labels):
        if label == control:
            continue
        same = [table.labels.index(control)] if label == baseline and control in table.labels else []
        yield label, [at, *same]


def _dip(y: NDArray[np.float64], label: str, columns: list[int]) -> tuple[float, str, list[int]] | None:
    from diptest import diptest

    values = y[:, columns].ravel()
    if len(values) < LEAST or np.ptp(values) == 0:
        return None
    return float(diptest(values)[1]), label, columns


def _fisher(ps: list[float]) -> float:
    """The joint p of independent ones."""
    from scipy.stats import chi2

    return float(chi2.sf(-2 * sum(math.log(max(p, 1e-12)) for p in ps), 2 * len(ps)))


def _cut(ordered: NDArray[np.float64]) -> int:
    """How many of the sorted values make up the lower group: the split that leaves the least sum of squares."""
    sizes = np.arange(LEAST_IN_ONE, len(ordered) - LEAST_IN_ONE + 1)
    below = np.cumsum(ordered)[sizes - 1]
    between = below**2 / sizes + (ordered.sum() - below) ** 2 / (len(ordered) - sizes)
    return int(sizes[between.argmax()])


def _apart(y: NDArray[np.float64], columns: list[int], margin: float) -> bool:
    """Are the groups further apart than the margin, and still there beside the other treatments of the same blocks?"""
    own = y[:, columns]
    ordered = np.sort(own.ravel())
    cut = _cut(ordered)
    distance = float(ordered[cut:].mean() - ordered[:cut].mean())
    if distance <= margin:
        return False
    if y.shape[1] < 2:
        return True
    rest = [own[:, at] - np.delete(y, column, axis=1).mean(axis=1) for at, column in enumerate(columns)]
    share = cut / len(ordered)
    return float(np.mean([one.var() for one in rest])) > EXPLAINED * distance**2 * share * (1 - share)

# SPDX-License-Identifier: Apache-2.0
"""What residuals say of the assumptions of a blocked experiment, each with a number to judge it by; nothing is dropped.

The order within blocks was shuffled before the first trial, so it can be shuffled again: what depends on the order (a
drift within blocks, an effect of the place, neighbours that resemble each other) is held against what shuffles of the
same residuals show. Formulas would be wrong here: residuals of a block sum to nought, so neighbours differ by design.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike

from .design_matrix import Array
from .quantiles import t_two_sided
from .residuals import Residuals, look_at

SHUFFLES = 999
HELD = 1 << 20  # numbers of shuffled residuals at a time
OUTLYING = 0.05  # level of all outliers of a model together


@dataclass(frozen=True, slots=True)
class Outlier:
    """`at`: index of the observation; `studentized`: by the error estimated without it; `p`: corrected for all."""

    at: int
    studentized: float
    p: float


@dataclass(frozen=True, slots=True)
class OrderEffect:
    """`size`: what was seen beyond the mean of the shuffles; `p`: share of shuffles at least as far from that mean."""

    size: float
    p: float


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """`expected` and `observed`: coordinates of the normal probability plot, in standard deviations of the error.

    `scatter_p`: of equal scatter in all groups (Levene). `neighbours`: lag-1 correlation in the order of the run.
    `drift`: of a residual from the first to the last place of a block, in log units. `place`: standard deviation of the
    means of the places, in log units.
    """

    summary: Residuals
    expected: Array
    observed: Array
    scatter_p: float
    neighbours: OrderEffect
    drift: OrderEffect
    place: OrderEffect
    outliers: tuple[Outlier, ...]


def diagnose(
    residuals: ArrayLike,
    *,
    leverages: ArrayLike,
    error_df: int,
    groups: Sequence[Hashable],
    blocks: ArrayLike,
    order: ArrayLike,
    seed: int = 0,
) -> Diagnostics:
    """One residual per trial, with its leverage (a block model's is 1 - df/n), group, block, and when it ran.

    Places are counted from the order within each block. NaN and p = 1 where nothing scatters. O(SHUFFLES x n log n).
    """
    from scipy.special import ndtri

    r, when = np.asarray(residuals, dtype=float), np.asarray(order)
    block = np.unique(np.asarray(blocks), return_inverse=True)[1]
    count = len(r)
    sd = math.sqrt(float((r**2).sum()) / error_df) if error_df else 0.0
    expected = ndtri((np.arange(1, count + 1) - 0.375) / (count + 0.25))
    observed = np.sort(r) / sd if sd else np.zeros(count)
    by_order = np.lexsort((when, block))
    neighbours, drift, place = _order_effects(r[by_order], block[by_order], seed)
    return Diagnostics(
        look_at(r, when, error_df),
        expected,
        observed,
        levene_p(r, groups),
        neighbours,
        drift,
        place,
        outliers(r, np.asarray(leverages, dtype=float), error_df),
    )


def levene_p(residuals: Array, groups: Sequence[Hashable]) -> float:
    """Levene's test (about means) of equal scatter in groups of any size; NaN with fewer than two, or no scatter."""
    from scipy.special import fdtrc

    group = np.unique(np.asarray(groups), return_inverse=True)[1]
    sizes = np.bincount(group)
    k, count = len(sizes), len(residuals)
    if k < 2 or count <= k:
        return math.nan
    spread = np.abs(residuals - (np.bincount(group, residuals) / sizes)[group])
    means = np.bincount(group, spread) / sizes
    between = float((sizes * (means - spread.mean()) ** 2).sum()) / (k - 1)
    within = float(((spread - means[group]) ** 2).sum()) / (count - k)
    return float(fdtrc(k - 1, count - k, between / within)) if within > 0 else math.nan


def outliers(residuals: Array, leverages: Array, error_df: int, *, level: float = OUTLYING) -> tuple[Outlier, ...]:
    """Trials whose externally studentized residual is significant with Bonferroni's correction; farthest first.

    Cook and Weisberg, Residuals and Influence in Regression (1982), section 2.2.2. For looking at, never for dropping:
    what an allocator does once in twenty trials it does.
    """
    room = 1 - leverages
    total = float((residuals**2).sum())
    if error_df < 2 or total == 0:
        return ()
    with np.errstate(divide="ignore", invalid="ignore"):
        standard = np.where(room > 1e-9, residuals / np.sqrt(total / error_df * room), 0.0)
        left = np.maximum(error_df - standard**2, 0.0)
        t = np.where(left > 1e-12, standard * np.sqrt((error_df - 1) / left), np.copysign(math.inf, standard))
    p = np.minimum(1.0, len(t) * t_two_sided(t, error_df - 1))
    found = [Outlier(int(i), float(t[i]), float(p[i])) for i in np.flatnonzero(p < level)]
    return tuple(sorted(found, key=lambda o: -abs(o.studentized)))


def _order_effects(r: Array, block: np.ndarray, seed: int) -> tuple[OrderEffect, OrderEffect, OrderEffect]:
    """Lag-1 correlation, drift within blocks and effect of the place; `r` in the order of the run, block by block."""
    if not r.any():
        return (OrderEffect(math.nan, 1.0),) * 3
    sizes = np.bincount(block)
    place = np.arange(len(r)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    reach = np.maximum(sizes - 1, 1)[block]
    x = place / reach - 0.5
    x[sizes[block] < 2] = 0.0
    per_place = np.bincount(place)
    alike = len(per_place) if (sizes == sizes[0]).all() else 0
    by_place, ends = np.argsort(place, kind="stable"), np.cumsum(per_place)

    def of_places(rows: Array) -> Array:
        """Sums. O(n) a row, whatever the number of places: a block of a large study has hundreds."""
        if alike:
            return rows.reshape(len(rows), -1, alike).sum(axis=1)
        return np.add.reduceat(rows[:, by_place], ends - per_place, axis=1)

    found = []
    for rows in chain((r[None, :],), _shuffles(r, block, sizes, seed)):  # never all of them at once
        neighbours = (rows[:, :-1] * rows[:, 1:]).sum(axis=1) / float((r**2).sum())
        drift = rows @ x / float(x @ x) if x.any() else np.zeros(len(rows))
        spread = np.sqrt((of_places(rows) ** 2 / per_place).sum(axis=1) / len(r))
        found.append((neighbours, drift, spread))
    neighbours, drift, spread = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return _judged(neighbours, two_sided=True), _judged(drift, two_sided=True), _judged(spread, two_sided=False)


def _shuffles(r: Array, block: np.ndarray, sizes: np.ndarray, seed: int) -> Iterator[Array]:
    """SHUFFLES rows of `r` shuffled within blocks, some at a time: all at once would take gigabytes for a fleet's trials."""
    draw = np.random.default_rng(seed)
    at_once = max(HELD // len(r), 1)
    alike = int(sizes[0]) if (sizes == sizes[0]).all() else 0
    for begun in range(0, SHUFFLES, at_once):
        keys = draw.random((min(at_once, SHUFFLES - begun), len(r)))
        if alike:  # many short sorts take less than a long one
            cells = (len(keys), len(sizes), alike)
            order = np.argsort(keys.reshape(cells), axis=2)
            yield np.take_along_axis(np.broadcast_to(r.reshape(1, *cells[1:]), cells), order, axis=2).reshape(len(keys), -1)
        else:
            yield r[np.argsort(block + keys, axis=1)]


def _judged(statistics: Array, *, two_sided: bool) -> OrderEffect:
    """The first one against the others."""
    away = statistics - statistics[1:].mean()
    far = np.abs(away) if two_sided else away
    as_far = int((far[1:] >= far[0] - 1e-9 * abs(far[0])).sum())
    return OrderEffect(float(away[0]), (as_far + 1) / len(statistics))

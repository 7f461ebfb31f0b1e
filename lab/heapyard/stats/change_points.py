# SPDX-License-Identifier: Apache-2.0
"""Where a sequence of numbers changes its level: for ratios of the same study measured again and again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.01  # of the whole sequence: an alarm that is false every twentieth time is soon ignored
SHUFFLES = 2000
LEAST = 3  # values on either side of a change


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The level changes before the `at`-th value (0-based), from mean `before` to mean `after`; `p` by permutation."""

    at: int
    before: float
    after: float
    p: float


def change_points(values: Sequence[float], *, level: float = LEVEL, seed: int = 0) -> list[ChangePoint]:
    """Changes of level, first to last; [] where so few values cannot have a p as small as `level` (ten are needed for 1 %).

    Binary segmentation: the split with the largest difference of means in units of its standard error is a change if few
    shuffles of the values have one as large (Antoch and Huskova 2001); then each side is looked at in turn, at half the
    level. No law of errors is assumed but that they could have come in any order. O(changes x SHUFFLES x n).
    """
    y = np.asarray(values, dtype=float)
    draw = np.random.default_rng(seed)
    cuts = sorted(_cuts(y, 0, level, draw))
    edges = [0, *(at for at, _ in cuts), len(y)]
    means = [float(y[a:b].mean()) for a, b in zip(edges, edges[1:], strict=False)] if len(y) else []
    return [ChangePoint(at, means[i], means[i + 1], p) for i, (at, p) in enumerate(cuts)]


def least_p(count: int) -> float:
    """The least p that any `count` values can have: two levels of equal length, which 2 of all orders part as well."""
    return 2 / math.comb(count, count // 2) if count > 1 else 1.0


def _cuts(y: NDArray[np.float64], start: int, level: float, draw: np.random.Generator) -> list[tuple[int, float]]:
    if len(y) < 2 * LEAST or least_p(len(y)) > level or float(y.std()) == 0:
        return []
    at, seen = _largest(y[None, :])
    shuffled = draw.permuted(np.tile(y, (SHUFFLES, 1)), axis=1)
    as_large = int((_largest(shuffled)[1] >= seen[0]).sum())
    p = (as_large + 1) / (SHUFFLES + 1)
    if p > level:
        return []
    cut = int(at[0])
    left = _cuts(y[:cut], start, level / 2, draw)
    return [*left, (start + cut, p), *_cuts(y[cut:], start + cut, level / 2, draw)]


def _largest(y: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Per row the best split and how far it parts the means."""
    n = y.shape[1]
    sizes = np.arange(LEAST, n - LEAST + 1)
    sums = np.cumsum(y, axis=1)[:, sizes - 1]
    total = y.sum(axis=1, keepdims=True)
    apart = np.abs(sums / sizes - (total - sums) / (n - sizes)) * np.sqrt(sizes * (n - sizes) / n)
    best = apart.argmax(axis=1)
    return sizes[best], np.take_along_axis(apart, best[:, None], axis=1)[:, 0]

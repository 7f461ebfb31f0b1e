# SPDX-License-Identifier: Apache-2.0
"""Slope of a response that was sampled over hours, with an interval that holds though neighbouring samples are alike.

Memory of a server stays high once it is high: thousands of samples may tell as little as a dozen independent ones. An
interval by Newey and West covers the true slope in half of the cases then (docs/measured/hours.md). So samples become
means of a few blocks of time, and the line is fitted to these by generalised least squares, their errors being an
autoregression of the first order (Prais and Winsten 1954). Its coefficient is estimated from few blocks, and too low
by about (2 + 4 rho) / blocks when a line is fitted; that is put right first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..model.hours import Slope
from .quantiles import t_quantile

if TYPE_CHECKING:
    import numpy as np

BLOCKS = 20  # more gain nothing and cost the correction; fewer make the interval wide
LEAST_BLOCKS = 6  # of a stretch: below, its line cannot be told from its errors
_TURNS = 4  # of line and correlation, which determine each other; they settle in two or three
_WHOLE = 0.999  # beyond, errors are taken for a random walk: its differences are independent


def slope_of(stretches: Sequence[tuple[np.ndarray, np.ndarray]], confidence: float = 0.95) -> Slope | None:
    """The slope common to all stretches, each a pair (seconds, values) in order of time with a level of its own.

    None when too little was measured: a stretch counts if its share of the samples makes LEAST_BLOCKS blocks. O(samples).
    """
    import numpy as np

    # Of two samples at the same time, as before and after a standstill, the first one counts.
    later = [np.r_[True, np.diff(x) > 0] if len(x) else np.zeros(0, bool) for x, _ in stretches]
    blocks = _blocks_of([(x[kept], values[kept]) for (x, values), kept in zip(stretches, later, strict=True)])
    if not blocks:
        return None
    count, levels = sum(len(x) for x, _ in blocks), len(blocks)
    design = np.zeros((count, levels + 1))
    y = np.concatenate([values for _, values in blocks])
    begin = 0
    starts = []
    for level, (x, _) in enumerate(blocks):
        starts.append(begin)
        design[begin : begin + len(x), level] = 1.0
        design[begin : begin + len(x), levels] = x
        begin += len(x)
    value, variance, rho, freedom = _fitted(design, y, starts)
    half = float(t_quantile((1 + confidence) / 2, freedom) * np.sqrt(variance))
    seconds = float(sum(x[-1] - x[0] + (x[1] - x[0]) for x, _ in blocks))
    return Slope(value, half, float(y.mean()), seconds, rho)


def _blocks_of(stretches: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Means (seconds, values) of blocks of as many samples each: BLOCKS in all, to each stretch by its share of the samples."""
    import numpy as np

    whole = sum(len(x) for x, _ in stretches)
    found = []
    for x, values in stretches:
        count = min(round(BLOCKS * len(x) / whole), len(x)) if whole else 0
        if count >= LEAST_BLOCKS:
            place = np.arange(len(x)) * count // len(x)
            sizes = np.bincount(place)
            found.append((np.bincount(place, x) / sizes, np.bincount(place, values) / sizes))
    return found


def _fitted(design: np.ndarray, y: np.ndarray, starts: Sequence[int]) -> tuple[float, float, float, int]:
    """(slope, its variance, correlation of neighbouring errors, degrees of freedom). O(blocks^2) per turn."""
    import numpy as np

    count, parameters = design.shape
    follows = np.ones(count, bool)
    follows[list(starts)] = False
    later = np.flatnonzero(follows)
    own = len(y) / len(starts)  # blocks for one level
    freedom = count - parameters - 1
    scale = float(np.abs(y).max()) or 1.0
    found = np.linalg.lstsq(design, y / scale, rcond=None)[0]
    rho = 0.0
    for _ in range(_TURNS):
        errors = y / scale - design @ found
        squares = float(errors @ errors)
        if squares < 1e-24 * count:
            value, span = float(found[-1]), float(np.ptp(design[:, -1]))
            return value * scale if abs(value) * span > 1e-9 else 0.0, 0.0, 0.0, freedom  # an exact line
        raw = float(errors[later] @ errors[later - 1]) / squares
        rho = min(max(0.0, (own * raw + 2.0) / (own - 4.0)), 1.0)
        if rho > _WHOLE:
            steps, between = np.diff(y / scale)[later - 1], np.diff(design[:, -1])[later - 1]
            rates = steps / between
            mean = float(rates.mean())
            variance = float(rates.var(ddof=1)) / len(rates)
            return mean * scale, variance * scale**2, rho, len(rates) - 1
        x_, y_ = _decorrelated(design, rho, later), _decorrelated(y / scale, rho, later)
        found = np.linalg.lstsq(x_, y_, rcond=None)[0]
    left = y_ - x_ @ found
    variance = float(left @ left) / (count - parameters) * float(np.linalg.inv(x_.T @ x_)[-1, -1])
    return float(found[-1]) * scale, variance * scale**2, rho, freedom


def _decorrelated(values: np.ndarray, rho: float, later: np.ndarray) -> np.ndarray:
    import numpy as np

    made = values * np.sqrt(1 - rho**2)  # the first block of a stretch follows none
    made[later] = values[later] - rho * values[later - 1]
    return made

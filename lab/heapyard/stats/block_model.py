# SPDX-License-Identifier: Apache-2.0
"""The randomised complete block model on the log scale: y = treatment + block + error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Logs of equal measurements differ by rounding only; below this, scatter and differences of logs are nought.
ROUNDING = 1e-12
_ROUNDING_UNITS = 32 * np.finfo(float).eps  # the same for residuals, relative to the largest value


@dataclass(frozen=True, slots=True)
class BlockFit:
    """The fitted model; sums of squares as in the textbook table, `y` and `residuals` blocks x treatments."""

    y: NDArray[np.float64]
    means: NDArray[np.float64]
    residuals: NDArray[np.float64]
    ss_treatment: float
    ss_block: float
    ss_error: float

    @property
    def blocks(self) -> int:
        return self.y.shape[0]

    @property
    def treatments(self) -> int:
        return self.y.shape[1]

    @property
    def df(self) -> int:
        """Residual degrees of freedom, (b-1)(k-1)."""
        return (self.blocks - 1) * (self.treatments - 1)

    @property
    def mean_square(self) -> float:
        """Residual mean square: the variance of one trial beyond its block. NaN without degrees of freedom."""
        return self.ss_error / self.df if self.df else math.nan

    @property
    def residual_cv(self) -> float:
        """Coefficient of variation of one trial beyond its block; NaN without degrees of freedom."""
        return cv_of(self.mean_square)

    @property
    def f_statistic(self) -> float:
        """F of the treatments; inf when nothing is left over, NaN without degrees of freedom."""
        if not self.df or self.treatments < 2:
            return math.nan
        mean_square_treatment = self.ss_treatment / (self.treatments - 1)
        return mean_square_treatment / self.mean_square if self.mean_square else math.inf


def cv_of(variance: float) -> float:
    """Coefficient of variation of a log-normal response from the variance of its log: sqrt(exp(s^2) - 1).

    NaN for NaN, nought below rounding, and capped at 1e150 where the exponential would overflow.
    """
    if math.isnan(variance):
        return math.nan
    return math.sqrt(math.expm1(min(variance, 690.0))) if variance >= ROUNDING**2 else 0.0


def fit(y: ArrayLike) -> BlockFit:
    """Least squares on a complete blocks x treatments table. O(b k)."""
    y = np.asarray(y, dtype=float)
    blocks, treatments = y.shape
    centre = y.mean()
    centred = y - centre  # before any square is taken: keeps the digits that a large common offset would eat
    centred -= centred.mean()  # of large values even the mean is rounded
    rows, columns = centred.mean(axis=1), centred.mean(axis=0)
    residuals = centred - columns - rows[:, None]
    residuals[np.abs(residuals) < _ROUNDING_UNITS * float(np.abs(y).max())] = 0.0
    return BlockFit(
        y,
        columns + centre,
        residuals,
        blocks * float((columns**2).sum()),
        treatments * float((rows**2).sum()),
        float((residuals**2).sum()),
    )


def scatter_differs(residuals: NDArray[np.float64], *, level: float) -> bool:
    """Do the treatments scatter unequally about the model? Levene's test (about means) on the residuals at `level`.

    Medians in place of means (Brown-Forsythe) would miss a threefold scatter in half of all six-block pilots. False
    with fewer than three blocks or treatments: with two, the model gives both the same residuals but for the sign.
    """
    from scipy.special import fdtrc

    blocks, treatments = residuals.shape
    if blocks < 3 or treatments < 3:
        return False
    spread = np.abs(residuals)  # residuals of a treatment have mean zero
    columns = spread.mean(axis=0)
    between = blocks * float(((columns - spread.mean()) ** 2).sum()) / (treatments - 1)
    within = float(((spread - columns) ** 2).sum()) / (treatments * (blocks - 1))
    if within <= 0:
        return between > 0
    return float(fdtrc(treatments - 1, treatments * (blocks - 1), between / within)) < level

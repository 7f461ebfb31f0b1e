# SPDX-License-Identifier: Apache-2.0
"""What the residuals of a model say of its assumptions: numbers to look at, never a reason to drop a trial."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Residuals:
    """`straightness`: correlation of the normal probability plot, 1 for normal errors. `largest`: in standard
    deviations of the error. `drift`: correlation of neighbours in the order they ran, 0 for independent ones."""

    count: int
    straightness: float
    largest: float
    drift: float


def look_at(residuals: NDArray[np.float64], order: NDArray[np.int64], error_df: int) -> Residuals:
    """`order`: when each residual ran (any numbers that sort). NaN where there is no scatter. O(n log n).

    Filliben (1975) for the plot's correlation, with Blom's positions.
    """
    from scipy.special import ndtri

    flat = residuals.ravel()
    count = flat.size
    sd = math.sqrt(float((flat**2).sum()) / error_df) if error_df else 0.0
    if count < 3 or sd == 0:
        return Residuals(count, math.nan, math.nan, math.nan)
    expected = ndtri((np.arange(1, count + 1) - 0.375) / (count + 0.25))
    in_order = flat[np.argsort(order.ravel(), kind="stable")]
    leverage = math.sqrt(error_df / count)
    return Residuals(
        count,
        float(np.corrcoef(np.sort(flat), expected)[0, 1]),
        float(np.abs(flat).max()) / (sd * leverage),
        float(np.corrcoef(in_order[:-1], in_order[1:])[0, 1]),
    )

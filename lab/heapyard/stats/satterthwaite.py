# SPDX-License-Identifier: Apache-2.0
"""Degrees of freedom of a sum of variances that were estimated apart (Satterthwaite 1946; of two it is Welch's)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST = 10_000  # beyond, Student's t is the normal distribution to four digits


def satterthwaite(variances: Sequence[float], dfs: Sequence[int]) -> int:
    """Whole degrees of freedom, rounded down, of the sum of independent `variances` with `dfs` of their own.

    At least the least of them, at most MOST. 0 where one of the variances has none (or is NaN). O(n).
    """
    if not dfs or min(dfs) < 1 or any(v != v for v in variances):
        return 0
    total = sum(variances)
    parts = sum((v / total) ** 2 / df for v, df in zip(variances, dfs, strict=True)) if total > 0 else 0.0
    found = 1 / parts if parts > 0 else sum(dfs)
    return int(min(max(found, min(dfs)), MOST))


def satterthwaite_of_two(variance: float, df: int, variances: NDArray[np.float64], dfs: NDArray[np.int64]) -> NDArray[np.int64]:
    """`satterthwaite` of one variance with each of many, all at once. O(n)."""
    total = variance + variances
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = (variance / total) ** 2 / df + (variances / total) ** 2 / dfs
        found = np.where(total > 0, 1 / parts, df + dfs)
    least = np.minimum(df, dfs)
    known = (least >= 1) & ~np.isnan(total)
    return np.where(known, np.minimum(np.maximum(np.where(known, found, 0), least), MOST), 0).astype(np.int64)

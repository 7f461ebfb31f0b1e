# SPDX-License-Identifier: Apache-2.0
"""Degrees of freedom of a sum of variances that were estimated apart (Satterthwaite 1946; of two it is Welch's)."""

from __future__ import annotations

from collections.abc import Sequence

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

# SPDX-License-Identifier: Apache-2.0
"""Time averages of memory that was sampled at uneven times."""

from __future__ import annotations

from collections.abc import Sequence

LEAST_PSS = 3  # PSS is dear to read; from fewer looks no average is made


def averages(samples: Sequence[Sequence[float]], wall: float, peak: float) -> tuple[float, float | None, float]:
    """(average RSS, average PSS or None, largest gap between samples) of (seconds, RSS, PSS or -1) over [0, wall].

    Trapezoids between samples; before the first and after the last the nearest one holds. A program too short to be
    seen counts with its peak, and a gap of its whole life says so. O(samples).
    """
    rss = [(s[0], s[1]) for s in samples if s[0] <= wall]
    pss = [(s[0], s[2]) for s in samples if s[0] <= wall and s[2] >= 0]
    if not rss:
        return peak, None, wall
    times = [0.0, *(t for t, _ in rss), wall]
    gap = max(b - a for a, b in zip(times, times[1:], strict=False))
    return _average(rss, wall), _average(pss, wall) if len(pss) >= LEAST_PSS else None, gap


def _average(points: Sequence[tuple[float, float]], wall: float) -> float:
    whole = [(0.0, points[0][1]), *points, (wall, points[-1][1])]
    if wall <= 0:
        return points[0][1]
    area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in zip(whole, whole[1:], strict=False))
    return min(area / wall, max(value for _, value in points))  # rounding must not lift a constant above its peak

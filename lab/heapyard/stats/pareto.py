# SPDX-License-Identifier: Apache-2.0
"""Time and memory together, never as one score."""

from __future__ import annotations

from ..model.analysis import Interval, Overall, ParetoPoint

_NO_DIFFERENCE = Interval(1.0, 1.0, 1.0)


def pareto(
    time: Overall | None, memory: Overall | None, treatments: tuple[str, ...], baseline: str
) -> tuple[ParetoPoint, ...]:
    """One point per treatment that has both, the baseline at (1, 1); both must run over the same workloads.

    A point is off the front when another is at least as good in both and better in one, by the point estimates;
    whether that other is better beyond noise is for the intervals, which each point carries, to say. Lower is better
    in both. O(k^2).
    """
    if time is None or memory is None:
        return ()
    times = {c.treatment: c.interval for c in time.comparisons} | {baseline: _NO_DIFFERENCE}
    memories = {c.treatment: c.interval for c in memory.comparisons} | {baseline: _NO_DIFFERENCE}
    places = {t: (times[t].ratio, memories[t].ratio) for t in treatments if t in times and t in memories}
    return tuple(
        ParetoPoint(t, times[t], memories[t], not any(dominates(other, place) for other in places.values()))
        for t, place in places.items()
    )


def dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Is the first at least as good in both, and better in one? Less is better."""
    return one[0] <= other[0] and one[1] <= other[1] and one != other

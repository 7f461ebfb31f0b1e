# SPDX-License-Identifier: Apache-2.0
"""Series over time from recorded changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from .trace import Trace


def total_over(trace: Trace, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Live bytes over the whole run in `columns` equal spans: the least and the most in each. O(records + columns)."""
    import numpy as np

    low, high = np.zeros(columns), np.zeros(columns)
    if len(trace.totals) == 0 or trace.duration <= 0:
        return low, high
    time, value, least, most = (trace.totals[:, k] for k in (0, 1, 2, 3))
    place = np.minimum((time / trace.duration * columns).astype(int), columns - 1)
    # The value at a span's beginning holds on from the record before it.
    before = np.searchsorted(time, np.arange(columns) * trace.duration / columns, side="right") - 1
    start = np.where(before >= 0, value[np.maximum(before, 0)], 0.0)
    low[:], high[:] = start, start
    np.minimum.at(low, place, least)
    np.maximum.at(high, place, most)
    peak = trace.snapshot("peak")
    if peak is not None:
        at = min(int(peak.time / trace.duration * columns), columns - 1)
        high[at] = max(high[at], peak.total)
    return low, high


def memory_of(trace: Trace, node: int, times: np.ndarray) -> np.ndarray:
    """What lies at and below a node at each of `times`, by the last record before it; bytes. O(log records) each."""
    import numpy as np

    mine = np.flatnonzero(trace.node == node)
    if len(mine) == 0:
        return np.zeros(len(times))
    at = np.searchsorted(trace.time[mine], times, side="right") - 1
    return np.where(at >= 0, trace.value[mine][np.maximum(at, 0)], 0).astype(float)


def highest_chains(trace: Trace, most: int) -> list[int]:
    """The nodes where chains end that ever owned most, the highest first. O(records + nodes log nodes)."""
    import numpy as np

    leaves = np.setdiff1d(np.unique(trace.node), trace.parent)
    highest = np.zeros(len(trace.parent), np.int64)
    np.maximum.at(highest, trace.node, trace.high)
    return [node for _, node in sorted(((int(highest[node]), int(node)) for node in leaves), reverse=True)[:most]]

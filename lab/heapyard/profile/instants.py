# SPDX-License-Identifier: Apache-2.0
"""The composition of a heap at any instant: exact at the peak, the end and marks, else from recorded changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.errors import UsageError
from ..model.units import parse_duration
from .trace import Snapshot

if TYPE_CHECKING:
    import numpy as np

    from .trace import Trace


def at_instant(trace: Trace, when: str) -> Snapshot:
    """`peak`, `end`, `mark:NAME`, or a time such as `90s` or `5m`. UsageError otherwise."""
    if when in ("peak", "end"):
        found = trace.snapshot(when)
        if found is None:
            raise UsageError(f"this trace was cut off and has no {when}", remedy="Give a time instead, such as 10s.")
        return found
    if when.startswith("mark:"):
        marks = {s.name: s for s in trace.snapshots if s.kind == "mark"}
        if when[5:] not in marks:
            known = ", ".join([*list(marks)[:20], *(["..."] if len(marks) > 20 else [])]) or "none"
            left_out = trace.end.get("lost", {}).get("marks", 0)
            raise UsageError(f"there is no mark '{when[5:]}' in this trace; its marks are: {known}",
                             remedy=f"{left_out:,} others found no room in the file; --limit raises it." if left_out else None)
        return marks[when[5:]]
    return composed(trace, parse_duration(when))


def composed(trace: Trace, seconds: float) -> Snapshot:
    """From the last record of each node before an instant: what a node holds beyond its children is its own.

    Each value is within the recording's rate (5 %, or 8 KiB) of the truth. O(records + nodes).
    """
    import numpy as np

    if seconds > trace.duration:
        raise UsageError(f"the trace ends after {trace.duration:.6g} s")
    held = np.zeros(len(trace.parent), np.int64)
    until = int(np.searchsorted(trace.time, seconds, side="right"))
    held[trace.node[:until]] = trace.value[:until]  # the last assignment wins: records are in order of time
    own = held.copy()
    np.subtract.at(own, trace.parent[1:], held[1:])
    own[0] = 0
    nodes = np.flatnonzero(own > 0)
    blocks = _blocks(trace, nodes, own[nodes])
    total = max(int(held[0]), int(own[nodes].sum()))  # parts may be older records than the whole
    return Snapshot("time", f"{seconds:.6g} s", seconds, total, nodes, own[nodes], blocks)


def _blocks(trace: Trace, nodes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Blocks by each chain's mean size over the run, which is all the recorded changes tell."""
    import numpy as np

    mean = np.ones(len(trace.parent))
    if len(trace.chains):
        count = np.maximum(trace.chains[:, 2], 1)
        mean[trace.chains[:, 0]] = np.maximum(trace.chains[:, 3] / count, 1)
    return np.maximum(1, np.rint(sizes / mean[nodes])).astype(np.int64)

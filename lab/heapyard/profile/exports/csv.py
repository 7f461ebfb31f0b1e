# SPDX-License-Identifier: Apache-2.0
"""Memory over time as a table: live bytes, resident bytes, and a column for each of the call chains that ever owned most.

The curves of BFM's report (Figure 14) are columns of it; studies/plots/profile.gp draws them.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from ..chains import short
from ..timeline import highest_chains, memory_of

if TYPE_CHECKING:
    from ..chains import Naming
    from ..trace import Snapshot, Trace

_CHAINS = 20
_ROWS = 500
_WIDEST = 60  # characters of a chain's heading, of its inner frames


def render(trace: Trace, naming: Naming, snapshot: Snapshot) -> bytes:
    """Equal steps in time and the instant of `snapshot`; seconds and bytes. O(rows x chains x log records)."""
    import numpy as np

    times = np.unique(np.append(np.linspace(0, trace.duration, _ROWS), snapshot.time))
    heading, columns = ["seconds", f"{trace.owned} bytes", "resident bytes"], [times]
    at = np.searchsorted(trace.totals[:, 0], times, side="right") - 1 if len(trace.totals) else np.full(len(times), -1)
    for field in (1, 5):
        columns.append(np.where(at >= 0, trace.totals[np.maximum(at, 0), field], 0) if len(trace.totals) else np.zeros(len(times)))
    for node in highest_chains(trace, _CHAINS):
        frames = naming.telling(node)
        name = " < ".join(short(frame.function).rsplit("::", 1)[-1] for frame in frames[:5])
        heading.append(f"{len(heading) - 2}: {name[:_WIDEST]} ({frames[0].place})")
        columns.append(memory_of(trace, node, times))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heading)
    for row in zip(*(column.tolist() for column in columns), strict=True):
        writer.writerow([f"{row[0]:.6f}", *(int(value) for value in row[1:])])
    return out.getvalue().encode()

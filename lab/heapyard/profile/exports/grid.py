# SPDX-License-Identifier: Apache-2.0
"""A profile at instants spread over its run, for formats that are a series of pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..instants import composed

if TYPE_CHECKING:
    from ..trace import Snapshot, Trace


def pictures(trace: Trace, count: int) -> Iterator[Snapshot]:
    """`count` instants in order of time, with the exact peak and end among them. O(count x (records + nodes))."""
    import numpy as np

    peak, end = trace.snapshot("peak"), trace.snapshot("end")
    times = np.linspace(0, trace.duration, count + 1)[1:-1] if end else np.linspace(0, trace.duration, count + 1)[1:]
    shown = [composed(trace, float(t)) for t in times]
    shown += [s for s in (peak, end) if s is not None]
    yield from sorted(shown, key=lambda s: s.time)

# SPDX-License-Identifier: Apache-2.0
"""Counter tracks for ui.perfetto.dev and chrome://tracing: live bytes, resident bytes and what they are, and the chains that ever
owned most.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..chains import short
from ..timeline import highest_chains, memory_of

if TYPE_CHECKING:
    from ..chains import Naming
    from ..trace import Snapshot, Trace

_TRACKS = 100


def render(trace: Trace, naming: Naming, snapshot: Snapshot) -> bytes:
    """The whole run in Chrome's JSON format; `snapshot` is not used. O(records)."""
    pid = trace.meta["pid"]
    events: list[dict[str, Any]] = [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": trace.program}}]

    def counter(name: str, seconds: float, value: float) -> None:
        events.append({"ph": "C", "pid": pid, "name": name, "ts": round(seconds * 1e6, 3), "args": {"bytes": value}})

    for row in trace.totals.tolist():
        counter(f"{trace.owned} bytes", row[0], row[1])
        counter("resident bytes", row[0], row[5])
    for account in trace.accounts:  # one track of several values: they are stacked
        parts = {part.name: part.bytes for part in sorted(account.parts, key=lambda part: part.key)}
        events.append({"ph": "C", "pid": pid, "name": "resident bytes, by kind", "ts": round(account.time * 1e6, 3), "args": parts})
    for rank, node in enumerate(highest_chains(trace, _TRACKS), 1):
        frames = naming.telling(node)
        name = f"{rank:03d} {short(frames[0].function)} {frames[0].place} < " + " < ".join(short(f.function) for f in frames[1:4])
        times = trace.time[trace.node == node]
        for at, value in zip(times.tolist(), memory_of(trace, node, times).tolist(), strict=True):
            counter(name, at, value)
    for shown in trace.snapshots:
        if shown.kind in ("mark", "peak"):
            label = shown.name or "peak"
            events.append({"ph": "i", "s": "p", "pid": pid, "tid": pid, "name": label, "ts": round(shown.time * 1e6, 3)})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode()

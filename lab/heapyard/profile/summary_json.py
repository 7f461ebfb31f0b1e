# SPDX-License-Identifier: Apache-2.0
"""A profile's summary as JSON, for pipelines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .account import MAPPED_AS, fullest, nearest
from .chains import Naming, owners, total_error
from .terminal import warnings

if TYPE_CHECKING:
    from .account import Account
    from .trace import Snapshot, Trace


def summary(trace: Trace, naming: Naming, snapshots: list[Snapshot] | None = None) -> str:
    """What was traced, totals, and every chain of the peak and of the end (or of the snapshots given). Bytes, seconds."""
    account = nearest(trace.accounts, snapshots[0].time) if snapshots else fullest(trace.accounts)
    chosen = snapshots if snapshots is not None else [s for k in ("peak", "end") if (s := trace.snapshot(k))]
    return json.dumps(
        {
            "trace": str(trace.path), "command": trace.meta["command"], "pid": trace.meta["pid"], "mode": trace.meta["mode"],
            "interval": trace.interval, "allocator": trace.meta["allocator"], "seconds": trace.duration,
            "complete": trace.finished, "peak_bytes": trace.peak_bytes, "end": trace.end, "warnings": warnings(trace),
            "threads": [{"id": t.id, "name": t.name, "allocations": t.allocations, "allocated_bytes": t.allocated,
                         "live_bytes": t.bytes, "peak_bytes": t.peak} for t in trace.threads],
            "resident": _resident(trace, naming, account),
            "snapshots": [_snapshot(trace, naming, s) for s in chosen],
        },
        indent=1,
    )


def _resident(trace: Trace, naming: Naming, account: Account | None) -> dict[str, Any] | None:
    """What all of the resident memory was; null where nobody could look. The parts add up to `bytes`."""
    if account is None:
        return None
    return {
        "seconds": account.time, "bytes": account.resident, "shared_bytes": account.shared, "swapped_bytes": account.swapped,
        "live_bytes": account.live, "parts": {part.key: part.bytes for part in account.parts},
        "mapped": _snapshot(trace, naming, account.of_mappings())["chains"],
    }


def _snapshot(trace: Trace, naming: Naming, snapshot: Snapshot) -> dict[str, Any]:
    found = owners(trace, snapshot)
    return {
        "kind": snapshot.kind, "name": snapshot.name, "seconds": snapshot.time, "bytes": snapshot.total,
        "error_95": total_error(found),
        "chains": [
            {"bytes": c.bytes, "blocks": c.blocks, "error_95": c.error,
             **{f"{kind}_bytes": size for kind, size in zip(MAPPED_AS, c.mapped_as, strict=False)},
             "frames": [{"function": f.function, "file": f.file, "line": f.line, "module": f.module} for f in naming.chain(c.node)]}
            for c in found
        ],
    }

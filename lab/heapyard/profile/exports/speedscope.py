# SPDX-License-Identifier: Apache-2.0
"""speedscope's JSON: memory at the peak, at the end and at the chosen instant, and all that was ever allocated; what
the program had mapped itself."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..account import nearest

if TYPE_CHECKING:
    from ..chains import Naming
    from ..trace import Snapshot, Trace


def render(trace: Trace, naming: Naming, snapshot: Snapshot) -> bytes:
    """Several profiles in one file, switched in speedscope's title bar. O(chains x depth)."""
    frames: dict[tuple[str, str, int], int] = {}

    def place(function: str, file: str, line: int) -> int:
        return frames.setdefault((function, file, line), len(frames))

    def profile(name: str, rows: Iterable[tuple[int, int]]) -> dict[str, Any]:
        kept = [(node, size) for node, size in rows if size > 0]
        stacks = [[place(f.function, f.file, f.line) for f in naming.chain(node)][::-1] for node, _ in kept]
        weights = [size for _, size in kept]
        return {"type": "sampled", "name": name, "unit": "bytes", "startValue": 0, "endValue": sum(weights),
                "samples": stacks, "weights": weights}

    def of(chosen: Snapshot, name: str) -> dict[str, Any]:
        return profile(name, zip(chosen.nodes.tolist(), chosen.bytes.tolist(), strict=True))

    profiles = [of(snapshot, f"live after {snapshot.time:.6g} s")]
    for kind, title in (("peak", "live at the peak"), ("end", "live at the end")):
        other = trace.snapshot(kind)
        if other is not None and other is not snapshot:
            profiles.append(of(other, title))
    if (account := nearest(trace.accounts, snapshot.time)) is not None and account.mapped_resident.any():
        profiles.append(of(account.of_mappings(), f"mapped by the program, resident after {account.time:.6g} s"))
    if len(trace.chains):
        allocated = zip(trace.chains[:, 0].tolist(), trace.chains[:, 3].tolist(), strict=True)
        profiles.append(profile("allocated over the run", allocated))
    shared = [{"name": function} | ({"file": file, "line": line} if file else {}) for function, file, line in frames]
    return json.dumps({
        "$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": shared}, "profiles": profiles,
        "name": trace.program, "activeProfileIndex": 0, "exporter": "heapyard profile",
    }).encode()

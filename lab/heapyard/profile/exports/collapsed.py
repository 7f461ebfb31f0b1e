# SPDX-License-Identifier: Apache-2.0
"""Collapsed stacks, one chain a line: `outermost;...;innermost bytes`. Read by flamegraph.pl, inferno, speedscope."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..chains import Naming
    from ..trace import Snapshot, Trace


def render(trace: Trace, naming: Naming, snapshot: Snapshot) -> bytes:
    """Bytes owned at the instant. O(chains x depth)."""
    sums: dict[str, int] = defaultdict(int)
    for node, size in zip(snapshot.nodes.tolist(), snapshot.bytes.tolist(), strict=True):
        names = [frame.function.replace(";", ",").replace("\n", " ") for frame in naming.chain(node)]
        sums[";".join(reversed(names))] += size
    return "".join(f"{stack} {size}\n" for stack, size in sorted(sums.items())).encode()

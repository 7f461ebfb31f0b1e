# SPDX-License-Identifier: Apache-2.0
"""Whether a trace can be what it says: nodes that there are, parents before their children, facts of their kinds.

What is made of a trace walks its tree and looks up its facts without asking again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..model.shared import TracerMode

if TYPE_CHECKING:
    import numpy as np

    from .trace import Trace

_NUMBER = (int, float)
# What every trace tells, and of which kind; the tools rely on it.
_META: dict[str, type | tuple[type, ...]] = {
    "format": int, "pid": int, "attached": bool, "mode": str, "interval": _NUMBER, "depth": int, "page_record": int,
    "rate": _NUMBER, "started": _NUMBER, "program": str, "allocator": str, "command": list,
}
# What the end tells, where there is one.
_END: dict[str, type | tuple[type, ...]] = {
    "how": str, "microseconds": int, "interval": _NUMBER, "widest_interval": _NUMBER, "rate": _NUMBER, "events": _NUMBER,
    "allocations": _NUMBER, "chains_cut": int, "chains_torn": int, "lost": dict,
}
_MOST = 2.0**64  # of any of these numbers; a program that writes over its own counters sets them to anything


def check(trace: Trace) -> None:
    """ValueError in words when the trace is not consistent. O(nodes + records)."""
    _facts(trace.meta, _META, all_of_them=True)
    _facts(trace.end, _END, all_of_them=False)
    _lost(trace.end.get("lost", {}))
    if trace.meta["mode"] not in (mode.name.lower() for mode in TracerMode):
        raise ValueError(f"there is no mode {trace.meta['mode']}")
    if not all(isinstance(word, str) for word in trace.meta["command"]):
        raise ValueError("the command is not made of words")
    _tree(trace)
    _symbols(trace.symbols or {})


def _facts(told: Mapping[str, Any], kinds: Mapping[str, Any], *, all_of_them: bool) -> None:
    for name, kind in kinds.items():
        if name not in told and not all_of_them:
            continue
        value = told.get(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{name} is missing or of another kind")
        if isinstance(value, _NUMBER) and not (math.isfinite(value) and 0 <= value <= _MOST):
            raise ValueError(f"{name} is {value:.3g}")


def _lost(told: Mapping[str, Any]) -> None:
    _facts(told, dict.fromkeys(told, _NUMBER), all_of_them=False)


def _tree(trace: Trace) -> None:
    import numpy as np

    count = len(trace.parent)
    if ((trace.parent[1:] < 0) | (trace.parent[1:] >= np.arange(1, count))).any():
        raise ValueError("a node comes before its parent")
    for what, nodes in (("a change", trace.node), ("a chain", trace.chains[:, 0]),
                        *(("a snapshot", snapshot.nodes) for snapshot in trace.snapshots),
                        *(("an account", account.nodes) for account in trace.accounts)):
        if _beyond(nodes, count):
            raise ValueError(f"{what} is of a node that there is not")


def _beyond(nodes: np.ndarray, count: int) -> bool:
    return len(nodes) > 0 and not (0 <= int(nodes.min()) and int(nodes.max()) < count)


def _symbols(told: Mapping[str, Any]) -> None:
    """Of each module, by its number, and of each offset in it: frames of function, file and line."""
    for offsets in told.values():
        for frames in offsets.values():
            for function, file, line in frames:
                if not (isinstance(function, str) and isinstance(file, str) and isinstance(line, int)):
                    raise ValueError("a symbol is no function, file and line")

# SPDX-License-Identifier: Apache-2.0
"""A profile as the page wants it: one tree of functions, memory of its nodes over time, all as packed arrays."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from .chains import TRACER, WRAPPERS, Naming, deviations_of, half_width, short

if TYPE_CHECKING:
    import numpy as np

    from .account import Account
    from .trace import Snapshot, Trace


def page_data(trace: Trace, naming: Naming) -> dict[str, Any]:
    """Everything the page draws from. O(records log records + nodes)."""
    import numpy as np

    tree = _FunctionTree(trace, naming)
    starts, times, values = _series(trace, tree)
    chains = _chains(trace, tree)
    peak, end = trace.snapshot("peak"), trace.snapshot("end")
    return {
        "program": trace.program, "seconds": trace.duration, "interval": trace.interval, "peak": trace.peak_bytes,
        "rate": trace.end.get("rate", trace.meta["rate"]), "floor": trace.meta["page_record"],
        "names": tree.names, "places": tree.places, "files": tree.files, "wrappers": tree.wrappers,
        "scripts": tree.scripts,
        "parent": packed(tree.parent, "<i4"), "frame": packed(tree.frame, "<i4"),
        "starts": packed(starts, "<u4"), "times": packed(times, "<f4"), "values": packed(values, "<f4"),
        "totals": {name: packed(trace.totals[:, column], "<f8")
                   for column, name in enumerate(("time", "live", "low", "high", "blocks", "rss"))},
        "chains": {name: packed(column, "<f8") for name, column in chains.items()},
        "exact": [_exact(trace, tree, s) for s in (peak, end) if s is not None],
        "accounts": [_exact(trace, tree, account.of_mappings()) | {"parts": _beside_mapped(account)}
                     for account in trace.accounts],
        "marks": [{"name": s.name, "time": s.time} for s in trace.snapshots if s.kind in ("mark", "step")],
        "threads": [{"id": t.id, "name": t.name, "allocations": t.allocations, "allocated": t.allocated, "live": t.bytes,
                     "peak": t.peak} for t in sorted(trace.threads, key=lambda t: -t.peak)[:200]],
        "sizes": np.asarray(trace.sizes).tolist(),
    }


def _beside_mapped(account: Account) -> dict[str, int]:
    return {part.name: part.bytes for part in account.parts if part.key != "mapped"}


def packed(values: Any, kind: str) -> str:
    """Little-endian numbers in base64."""
    import numpy as np

    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()


class _FunctionTree:
    """The call tree with one node per function called from the same caller, inlined ones too; parents come first.

    `of[raw]`: the nodes that a raw node stands for, outermost first; `end[raw]` the last of them. The functions of a script are
    shown without those of its interpreter: they begin at the root, and `not_of[raw]` are the nodes that do not have it then.
    """

    def __init__(self, trace: Trace, naming: Naming):
        self.names: list[str] = ["all"]
        self.places: list[str] = [""]
        self.files: list[str] = [""]
        self.wrappers: list[int] = []
        self.scripts: list[int] = []
        self.parent: list[int] = [-1]
        self.frame: list[int] = [0]
        allocator = trace.meta.get("allocator") or "\0"
        frames: dict[tuple[str, str], int] = {}
        nodes: dict[tuple[int, int], int] = {}
        self.of: list[list[int]] = [[0]]
        self.not_of: list[list[int]] = [[]]
        self.end: list[int] = [0]
        in_script = [False]
        for raw, parent in enumerate(trace.parent.tolist()):
            if raw == 0:
                continue
            at, path, without, inside = self.end[parent], list[int](), list[int](), in_script[parent]
            for frame in reversed(naming.frames(raw)):
                if naming.says_nothing(frame) or (inside and not frame.is_script):
                    continue
                if frame.is_script and not inside and not naming.native:
                    without, path, at, inside = self._to_root(at), [], 0, True
                key = (frame.function, frame.file or frame.module)
                if key not in frames:
                    frames[key] = len(self.names)
                    if WRAPPERS.match(frame.function) or frame.module.endswith((allocator, *TRACER)):
                        self.wrappers.append(len(self.names))
                    if frame.is_script:
                        self.scripts.append(len(self.names))
                    self.names.append(short(frame.function))
                    self.places.append(frame.place)
                    self.files.append(frame.function)
                step = (at, frames[key])
                if step not in nodes:
                    nodes[step] = len(self.parent)
                    self.parent.append(at)
                    self.frame.append(frames[key])
                at = nodes[step]
                path.append(at)
            self.of.append(path)
            self.not_of.append(without)
            self.end.append(at)
            in_script.append(inside)

    def _to_root(self, node: int) -> list[int]:
        """The node and those around it, without the root."""
        found = []
        while node != 0:
            found.append(node)
            node = self.parent[node]
        return found


def _series(trace: Trace, tree: _FunctionTree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(first record of each node and one more, seconds, bytes): what each node holds from each record on."""
    import numpy as np

    order = np.argsort(trace.node, kind="stable")
    nodes, values = trace.node[order], trace.value[order]
    change = np.diff(values, prepend=0)
    if len(nodes):
        first = np.r_[True, nodes[1:] != nodes[:-1]]
        change[first] = values[first]
    lengths = np.array([len(path) + len(without) for path, without in zip(tree.of, tree.not_of, strict=True)])
    flat = np.concatenate([np.asarray(part, int) for pair in zip(tree.of, tree.not_of, strict=True) for part in pair])
    signs = np.concatenate([np.r_[np.ones(len(path)), -np.ones(len(without))]
                            for path, without in zip(tree.of, tree.not_of, strict=True)])
    offsets = np.r_[0, np.cumsum(lengths)]
    counts = lengths[nodes]
    place = np.repeat(offsets[nodes], counts) + _ranges(counts)
    target, when, delta = flat[place], np.repeat(trace.time[order], counts), np.repeat(change, counts) * signs[place]
    by = np.lexsort((when, target))
    target, when, delta = target[by], when[by], delta[by]
    running = np.cumsum(delta)
    begins = np.searchsorted(target, np.arange(len(tree.parent) + 1))
    before = np.r_[0, running][begins[:-1]] if len(running) else np.zeros(len(tree.parent))
    values = running - np.repeat(before, np.diff(begins))
    # Of records at the same moment only the last counts.
    last = np.r_[(target[1:] != target[:-1]) | (when[1:] != when[:-1]), True] if len(target) else np.zeros(0, bool)
    target, when, values = target[last], when[last], values[last]
    return np.searchsorted(target, np.arange(len(tree.parent) + 1)), when, np.maximum(values, 0)


def _ranges(counts: np.ndarray) -> np.ndarray:
    """0..counts[0]-1, 0..counts[1]-1, ... in one array."""
    import numpy as np

    total = int(counts.sum())
    return np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)


def _chains(trace: Trace, tree: _FunctionTree) -> dict[str, np.ndarray]:
    """Over the whole run, by the node where chains end."""
    import numpy as np

    ends = np.asarray(tree.end)[trace.chains[:, 0]] if len(trace.chains) else np.zeros(0, int)
    nodes, place = np.unique(ends, return_inverse=True)
    found: dict[str, np.ndarray] = {"node": nodes}
    for column, name in ((2, "allocations"), (3, "allocated"), (4, "temporary"), (5, "peak")):
        sums = np.zeros(len(nodes))
        np.add.at(sums, place, trace.chains[:, column].astype(float))
        found[name] = sums
    return found


def _exact(trace: Trace, tree: _FunctionTree, snapshot: Snapshot) -> dict[str, Any]:
    import numpy as np

    ends = np.asarray(tree.end)[snapshot.nodes] if len(snapshot.nodes) else np.zeros(0, int)
    deviation = deviations_of(trace.interval, snapshot)
    nodes, place = np.unique(ends, return_inverse=True)
    sums = np.zeros((3, len(nodes)))
    for row, column in enumerate((snapshot.bytes, snapshot.blocks, deviation**2)):
        np.add.at(sums[row], place, column)
    errors = [half_width(size, variance**0.5) for size, variance in zip(sums[0], sums[2], strict=True)]
    return {"kind": snapshot.kind, "time": snapshot.time, "total": snapshot.total, "node": packed(nodes, "<i4"),
            "bytes": packed(sums[0], "<f8"), "blocks": packed(sums[1], "<f8"), "error": packed(errors, "<f8")}

# SPDX-License-Identifier: Apache-2.0
"""Massif's output, for ms_print and massif-visualizer: the run as snapshots, some of them with their allocation tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .grid import pictures

if TYPE_CHECKING:
    from ..chains import Naming
    from ..trace import Snapshot, Trace

_SNAPSHOTS = 80
_EVERY = 10  # with a tree
_THRESHOLD = 0.01  # of the total


def render(trace: Trace, naming: Naming, snapshot: Snapshot) -> bytes:
    """The whole run; `snapshot` is not used. O(snapshots x nodes)."""
    lines = ["desc: heapyard profile", f"cmd: {trace.command}", "time_unit: ms"]
    peak = trace.snapshot("peak")
    for number, shown in enumerate(pictures(trace, _SNAPSHOTS)):
        detailed = shown is peak or number % _EVERY == 0
        lines += ["#-----------", f"snapshot={number}", "#-----------", f"time={round(shown.time * 1000)}",
                  f"mem_heap_B={shown.total}", "mem_heap_extra_B=0", "mem_stacks_B=0",
                  f"heap_tree={'peak' if shown is peak else 'detailed' if detailed else 'empty'}"]
        if detailed:
            lines += _tree(naming, shown)
    return ("\n".join(lines) + "\n").encode()


def _tree(naming: Naming, shown: Snapshot) -> list[str]:
    root: dict[str, Any] = {"bytes": int(shown.bytes.sum()), "children": {}}
    for node, size in zip(shown.nodes.tolist(), shown.bytes.tolist(), strict=True):
        at = root
        for frame in naming.chain(node):
            at = at["children"].setdefault((frame.function, frame.place), {"bytes": 0, "children": {}})
            at["bytes"] += size
    lines: list[str] = []
    _write(lines, root, "(heap allocation functions) malloc/new/new[], --alloc-fns, etc.", 0, max(1, root["bytes"] * _THRESHOLD))
    return lines


def _write(lines: list[str], node: dict[str, Any], title: str, depth: int, least: float) -> None:
    ranked = sorted(node["children"].items(), key=lambda item: -item[1]["bytes"])
    large = [(key, child) for key, child in ranked if child["bytes"] >= least]
    small = [child for _, child in ranked if child["bytes"] < least]
    lines.append(f"{' ' * depth}n{len(large) + bool(small)}: {node['bytes']} {title}")
    for (function, place), child in large:
        _write(lines, child, f"0x0: {function} ({place})".replace("\n", " "), depth + 1, least)
    if small:
        count = "in 1 place" if len(small) == 1 else f"in {len(small)} places"
        below = f"{count}, {'all ' if len(small) > 1 else ''}below massif's threshold (01.00%)"
        lines.append(f"{' ' * (depth + 1)}n0: {sum(child['bytes'] for child in small)} {below}")

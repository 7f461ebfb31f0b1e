# SPDX-License-Identifier: Apache-2.0
"""heaptrack's data file, version 3, for heaptrack_gui and heaptrack_print.

heaptrack wants single allocations and frees. What each chain owns is written as blocks of powers of two that come and go,
so that bytes over time, peaks and leaks are right, to a part in 4,096; counts of allocations and temporary ones are not, and a
comment in the file says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .grid import pictures

if TYPE_CHECKING:
    from ..chains import Naming
    from ..trace import Snapshot, Trace

_PICTURES = 200
_BITS = 12


def _powers(size: int) -> set[int]:
    """The exponents of the powers of two that make up a size, the largest twelve."""
    found = {bit for bit in range(size.bit_length()) if size >> bit & 1}
    return set(sorted(found, reverse=True)[:_BITS])


def render(trace: Trace, naming: Naming, snapshot: Snapshot) -> bytes:
    """The whole run; `snapshot` is not used. O(pictures x chains)."""
    writer = _Writer(trace, naming)
    for shown in pictures(trace, _PICTURES):
        writer.picture(shown)
    return ("\n".join(writer.lines) + "\n").encode("utf-8", "replace")


class _Writer:
    def __init__(self, trace: Trace, naming: Naming):
        self.lines = ["v 10500 3", "# by heapyard profile: bytes over time are right, counts and temporary allocations are not",
                      f"X {trace.command}", "I 1000 0"]
        self._trace, self._naming = trace, naming
        self._parents = trace.parent.tolist()
        self._addresses = list(zip(trace.module.tolist(), trace.offset.tolist(), strict=True))
        self._strings: dict[str, int] = {}
        self._ips: dict[tuple[int, int], int] = {}
        self._traces: dict[int, int] = {0: 0}
        self._infos: dict[tuple[int, int], int] = {}
        self._held: dict[int, set[int]] = {}
        self._rss = 0

    def picture(self, shown: Snapshot) -> None:
        now = {node: _powers(size) for node, size in zip(shown.nodes.tolist(), shown.bytes.tolist(), strict=True)}
        came, went = [], []
        for node in now.keys() | self._held.keys():
            before, after = self._held.get(node, set()), now.get(node, set())
            came += [self._info(node, bit) for bit in sorted(after - before)]
            went += [self._info(node, bit) for bit in sorted(before - after)]
        self._held = now
        # What goes does so first, so that an instant's sum is never that of two.
        self.lines += [f"c {round(shown.time * 1000):x}", *(f"- {info:x}" for info in went), *(f"+ {info:x}" for info in came)]
        import numpy as np

        at = int(np.searchsorted(self._trace.totals[:, 0], shown.time, side="right")) - 1
        if at >= 0:
            self.lines.append(f"R {int(self._trace.totals[at, 5]) // 4096:x}")

    def _string(self, text: str) -> int:
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            data = text.replace("\n", " ")
            self.lines.append(f"s {len(data.encode()):x} {data}")
        return self._strings[text]

    def _ip(self, node: int) -> int:
        key = self._addresses[node]
        if key not in self._ips:
            frames = self._naming.frames(node)
            words = [f"{key[1]:x}", f"{self._string(frames[0].module or '?'):x}"]
            for place, frame in enumerate(frames):
                words.append(f"{self._string(frame.function):x}")
                if frame.file or place < len(frames) - 1:
                    words += [f"{self._string(frame.file or '?'):x}", f"{frame.line:x}"]
            self._ips[key] = len(self._ips) + 1
            self.lines.append("i " + " ".join(words))
        return self._ips[key]

    def _chain(self, node: int) -> int:
        waiting = []
        while node not in self._traces:
            waiting.append(node)
            node = self._parents[node]
        for each in reversed(waiting):
            ip, parent = self._ip(each), self._traces[self._parents[each]]
            self._traces[each] = len(self._traces)
            self.lines.append(f"t {ip:x} {parent:x}")
        return self._traces[waiting[0]] if waiting else self._traces[node]

    def _info(self, node: int, bit: int) -> int:
        key = (node, bit)
        if key not in self._infos:
            chain = self._chain(node)
            self._infos[key] = len(self._infos)
            self.lines.append(f"a {1 << bit:x} {chain:x}")
        return self._infos[key]

# SPDX-License-Identifier: Apache-2.0
"""pprof's profile.proto, gzipped: objects and bytes allocated over the run, and in use at an instant; what was mapped then.

Written field by field in protobuf's wire format; field numbers are those of google/pprof's proto/profile.proto.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from ..account import nearest

if TYPE_CHECKING:
    from ..account import Account
    from ..chains import Naming
    from ..trace import Snapshot, Trace


def _varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value) if value else b""


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _packed(field: int, values: list[int]) -> bytes:
    return _bytes(field, b"".join(map(_varint, values)))


class _Strings:
    def __init__(self) -> None:
        self.places = {"": 0}

    def __call__(self, text: str) -> int:
        return self.places.setdefault(text, len(self.places))


_LIVE = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"))
_MAPPED = (("mappings", "count"), ("mapped_resident", "bytes"))


def _values(trace: Trace, snapshot: Snapshot, account: Account | None) -> dict[int, list[int]]:
    """By the node where a chain ends: a number for each sample type."""
    none = [0] * (len(_LIVE) + (len(_MAPPED) if account else 0))
    values: dict[int, list[int]] = {}
    for node, _, count, allocated, _, _ in trace.chains.tolist():
        values[node] = [count, allocated, *none[2:]]
    for node, size, blocks in zip(snapshot.nodes.tolist(), snapshot.bytes.tolist(), snapshot.blocks.tolist(), strict=True):
        values.setdefault(node, [blocks, size, *none[2:]])[2:4] = [blocks, size]
    if account is not None:
        mapped = zip(account.nodes.tolist(), account.mapped_resident.tolist(), account.pieces.tolist(), strict=True)
        for node, size, pieces in mapped:
            values.setdefault(node, none.copy())[4:] = [pieces, size]
    return values


def render(trace: Trace, naming: Naming, snapshot: Snapshot) -> bytes:
    """Values are estimates already scaled up; mappings are those of the nearest look. O(chains x depth)."""
    text = _Strings()
    out = bytearray()
    account = nearest(trace.accounts, snapshot.time)
    for kind, unit in (*_LIVE, *(_MAPPED if account else ())):
        out += _bytes(1, _number(1, text(kind)) + _number(2, text(unit)))
    values = _values(trace, snapshot, account)
    parents, modules, offsets = trace.parent.tolist(), trace.module.tolist(), trace.offset.tolist()
    locations: dict[tuple[int, int], int] = {}
    first_nodes: list[int] = []
    for node, numbers in values.items():
        chain = []
        at = node
        while at != 0:
            key = (modules[at], offsets[at])
            if key not in locations:
                locations[key] = len(locations) + 1
                first_nodes.append(at)
            chain.append(locations[key])
            at = parents[at]
        out += _bytes(2, _packed(1, chain) + _packed(2, numbers))
    program = trace.meta.get("program")
    # pprof takes the first mapping for the program.
    for index, module in sorted(enumerate(trace.modules[1:], 1), key=lambda item: item[1].path != program):
        # A module's addresses are its file's own: relative to the bias.
        out += _bytes(3, _number(1, index) + _number(2, module.begin - module.bias) + _number(3, module.end - module.bias)
                      + _number(5, text(module.path)) + _number(6, text(module.build_id))
                      + _number(7, 1) + _number(8, 1) + _number(9, 1) + _number(10, 1))
    functions: dict[tuple[str, str], int] = {}
    for (module_index, offset), place in locations.items():
        lines = b""
        for frame in naming.frames(first_nodes[place - 1]):
            function = functions.setdefault((frame.function, frame.file), len(functions) + 1)
            lines += _bytes(4, _number(1, function) + _number(2, frame.line))
        out += _bytes(4, _number(1, place) + _number(2, module_index) + _number(3, offset) + lines)
    for (name, file), function in functions.items():
        out += _bytes(5, _number(1, function) + _number(2, text(name)) + _number(3, text(name)) + _number(4, text(file)))
    out += _number(9, round((trace.meta["started"] + snapshot.time) * 1e9)) + _number(10, round(trace.duration * 1e9))
    out += _bytes(11, _number(1, text("space")) + _number(2, text("bytes"))) + _number(12, int(trace.interval) or 1)
    out += _number(14, text("inuse_space"))
    for string in text.places:
        out += _bytes(6, string.encode("utf-8", "replace"))
    return gzip.compress(bytes(out), mtime=0)

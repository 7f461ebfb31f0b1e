# SPDX-License-Identifier: Apache-2.0
"""A trace as numbers: the call tree, memory of its nodes over time, exact compositions, totals."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.damage import object_of, reading
from ..model.errors import UsageError
from ..model.shared import ChunkKind
from .account import Account, account_of
from .chunks import Chunk, Fields, chunks_of, numbers, signed
from .trace_check import check

if TYPE_CHECKING:
    import numpy as np



@dataclass(frozen=True, slots=True)
class Module:
    """A file that was mapped into the program. `build_id` is hex, "" if it has none."""

    begin: int
    end: int
    bias: int
    build_id: str
    path: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The composition of an instant: node, bytes and blocks of every chain that owned something.

    `deviation`: standard errors of the bytes; None where only recorded changes tell of the instant. `mapped_as`: of mappings,
    bytes as in account.MAPPED_AS.

    `kind`: peak, end, mark (named by the program) or step (the tracer changed how it samples).
    """

    kind: str
    name: str
    time: float  # seconds
    total: int
    nodes: np.ndarray
    bytes: np.ndarray
    blocks: np.ndarray
    deviation: np.ndarray | None = None
    mapped_as: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """What one thread allocated over the run, and owns at its end."""

    id: int
    name: str
    allocations: int
    allocated: int
    bytes: int
    peak: int


@dataclass(slots=True)
class Trace:
    """One process. Times in seconds since its tracing began, memory in bytes; sampled numbers are estimates.

    `parent`, `module`, `offset`: per node of the call tree; node 0 is the root. `time`, `node`, `value`, `low`, `high`:
    the recorded changes in order of time; `low` and `high` are the least and the most since the node's last record.
    `totals`: columns time, bytes, low, high, blocks, rss, allocations, frees.
    `chains`: columns node, cut, allocations, allocated, temporary, peak. `sizes`: columns bin, blocks, bytes.
    `scripts`: place of a script by its number -> (function, file, line); module 0's offsets from SCRIPT_PLACES on are such.
    `accounts`: what the resident memory was at some instants, in order of time. `owned`: what the chains' bytes are, "live"
    or "mapped" (mapped.py).
    `finished`: False when the collector was killed; then what it had written is here.
    """

    path: Path
    meta: dict[str, Any]
    end: dict[str, Any]
    finished: bool
    modules: list[Module]
    parent: np.ndarray
    module: np.ndarray
    offset: np.ndarray
    time: np.ndarray
    node: np.ndarray
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    totals: np.ndarray
    snapshots: list[Snapshot]
    chains: np.ndarray
    threads: list[Thread]
    sizes: np.ndarray
    symbols: dict[str, Any] | None = field(default=None)
    accounts: list[Account] = field(default_factory=list)
    scripts: dict[int, tuple[str, str, int]] = field(default_factory=dict)
    owned: str = "live"

    @property
    def program(self) -> str:
        return Path(self.meta.get("program") or "program").name

    @property
    def command(self) -> str:
        """In one line; a server may have written blanks over its words."""
        return " ".join(" ".join(self.meta.get("command") or [self.program]).split())

    @property
    def duration(self) -> float:
        """Seconds from the first to the last that is known."""
        if "microseconds" in self.end:
            return self.end["microseconds"] / 1e6
        return float(self.totals[-1, 0]) if len(self.totals) else 0.0

    @property
    def interval(self) -> float:
        """Mean bytes between samples; 0 when every event was recorded."""
        return float(self.end.get("interval", self.meta["interval"]))

    def snapshot(self, kind: str) -> Snapshot | None:
        """The last one of a kind."""
        return next((s for s in reversed(self.snapshots) if s.kind == kind), None)

    @property
    def peak_bytes(self) -> int:
        peak = self.snapshot("peak")
        return peak.total if peak else int(self.totals[:, 3].max(initial=0)) if len(self.totals) else 0


def load_trace(path: Path) -> Trace:
    """Reads a trace; UsageError when it is none, or says what cannot be. O(bytes)."""
    with reading(path, "trace"):
        trace = _load(path)
        check(trace)
    return trace


def _load(path: Path) -> Trace:

    chunks, finished = chunks_of(path)
    of: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        of.setdefault(chunk.kind, []).append(chunk)
    if ChunkKind.META not in of:
        raise UsageError(f"{path} was cut off before its first chunk")
    tree = _nodes(of.get(ChunkKind.NODES, []))
    time, node, value, low, high = _changes(of.get(ChunkKind.CHANGES, []))
    symbols = object_of(of[ChunkKind.SYMBOLS][-1].data) if ChunkKind.SYMBOLS in of else None
    meta = object_of(of[ChunkKind.META][0].data)
    count = len(tree) if not finished else sys.maxsize
    snapshots = [_snapshot(c) for c in of.get(ChunkKind.SNAPSHOT, [])]
    accounts = [account_of(c, meta["format"]) for c in of.get(ChunkKind.ACCOUNT, [])]
    return Trace(
        path=path, meta=meta,
        end=object_of(of[ChunkKind.END][-1].data) if ChunkKind.END in of else {},
        finished=finished and ChunkKind.END in of, modules=_modules(of.get(ChunkKind.MODULES, [])),
        parent=tree[:, 0], module=tree[:, 1], offset=tree[:, 2],
        time=time, node=node, value=value, low=low, high=high, totals=_totals(of.get(ChunkKind.TOTALS, [])),
        # Those of a file that was cut off may be of nodes that were to follow.
        snapshots=[s for s in snapshots if s.nodes.max(initial=0) < count],
        chains=_table([numbers(c.data) for c in of.get(ChunkKind.CHAINS, [])], 6),
        threads=[t for c in of.get(ChunkKind.THREADS, []) for t in _threads(c)],
        sizes=_table([numbers(c.data) for c in of.get(ChunkKind.SIZES, [])], 3), symbols=symbols,
        scripts={number: place for c in of.get(ChunkKind.SCRIPTS, []) for number, place in _scripts(c)},
        accounts=[account for account in accounts if account.nodes.max(initial=0) < count],
    )


def _table(parts: Sequence[np.ndarray], columns: int) -> np.ndarray:
    import numpy as np

    if not parts:
        return np.zeros((0, columns), np.int64)
    return np.concatenate([part.astype(np.int64).reshape(-1, columns) for part in parts])


def _nodes(chunks: Sequence[Chunk]) -> np.ndarray:
    """Parent, module and offset of each node, the root first."""
    import numpy as np

    parts, known = [np.zeros((1, 3), np.int64)], 1
    for chunk in chunks:
        told = numbers(chunk.data)
        if told[0] != known:
            raise ValueError(f"nodes from {told[0]} on follow {known} others")
        parts.append(_table([told[1:]], 3))
        known += len(parts[-1])
    return np.concatenate(parts)


def _modules(chunks: Sequence[Chunk]) -> list[Module]:
    modules = [Module(0, 0, 0, "", "")]
    for chunk in chunks:
        fields = Fields(chunk.data)
        while fields.more():
            fields.number()
            modules.append(Module(fields.number(), fields.number(), fields.number(), fields.text(), fields.text()))
    return modules


def _scripts(chunk: Chunk) -> Iterator[tuple[int, tuple[str, str, int]]]:
    fields = Fields(chunk.data)
    while fields.more():
        number, line = fields.number(), fields.number()
        yield number, (fields.text(), fields.text(), line)


def _changes(chunks: Sequence[Chunk]) -> tuple[np.ndarray, ...]:
    import numpy as np

    empty = np.zeros((0, 5), np.int64)
    parts = []
    for chunk in chunks:
        raw = numbers(chunk.data).reshape(-1, 5)
        part = raw.astype(np.int64)
        part[:, 0] = chunk.begin + np.cumsum(part[:, 0])
        part[:, 2] = signed(raw[:, 2])
        parts.append(part)
    table = np.concatenate(parts) if parts else empty
    # A record holds the difference to the node's record before it.
    order = np.argsort(table[:, 1], kind="stable")
    running = np.cumsum(table[order, 2])
    nodes = table[order, 1]
    first = np.flatnonzero(np.r_[True, nodes[1:] != nodes[:-1]]) if len(nodes) else np.zeros(0, np.int64)
    before = np.repeat(running[first] - table[order, 2][first], np.diff(np.r_[first, len(nodes)])) if len(nodes) else running
    value = np.empty(len(table), np.int64)
    value[order] = running - before
    return table[:, 0] / 1e6, table[:, 1], value, value - table[:, 3], value + table[:, 4]


def _totals(chunks: Sequence[Chunk]) -> np.ndarray:
    import numpy as np

    parts = []
    for chunk in chunks:
        part = numbers(chunk.data).astype(np.float64).reshape(-1, 8)
        part[:, 0] = (chunk.begin + np.cumsum(part[:, 0])) / 1e6
        part[:, 2] = part[:, 1] - part[:, 2]
        part[:, 3] = part[:, 1] + part[:, 3]
        parts.append(part)
    return np.concatenate(parts) if parts else np.zeros((0, 8))


def _snapshot(chunk: Chunk) -> Snapshot:
    import numpy as np

    fields = Fields(chunk.data)
    kind, name, total = fields.text(), fields.text(), fields.number()
    rows = numbers(fields.rest()).astype(np.int64).reshape(-1, 4)
    return Snapshot(kind, name, chunk.begin / 1e6, total, *(rows[:, column] for column in range(4)))


def _threads(chunk: Chunk) -> list[Thread]:
    fields, found = Fields(chunk.data), []
    while fields.more():
        found.append(Thread(fields.number(), fields.text(), *(fields.number() for _ in range(4))))
    return found

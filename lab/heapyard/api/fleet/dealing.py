# SPDX-License-Identifier: Apache-2.0
"""Which of the blocks that are out a node takes next, so that every kind of machine can be judged.

The statistics need two blocks of a workload from a kind of machine. A node therefore takes the workload of which its kind has
one, then one that its kind has not had, then the one that it has had least; of these by its own blocks in the same way, then
in the order of rounds. The lease decides who gets a block, so counts may be a little old: they only guide the choice.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...model.machine_facts import Snapshot, facts_of
from ...store.codec import decode, encode
from ...store.sealed import seal, unseal
from ...execute.loop.plan import WARM_UP
from . import lease
from .room import Room

ENOUGH = 2  # blocks of a workload from which a kind of machine is judged


@dataclass(frozen=True, slots=True)
class Due:
    """A block that is out. `seconds`: what it takes if every trial lasts as long as it may."""

    index: int
    workload: str
    stage: str
    round: int
    seconds: float


def write_due(room: Room, blocks: Sequence[Due]) -> None:
    """Tell the nodes all blocks that are out. OSError without room."""
    room.due.parent.mkdir(parents=True, exist_ok=True)
    seal(room.due, encode(_List(tuple(blocks))))


def read_due(room: Room) -> tuple[Due, ...]:
    """OSError where the room cannot be seen."""
    return decode(_List, unseal(room.due)).blocks


def groups_of(node: str, snapshot: Snapshot) -> tuple[str, str]:
    """Under which a node's blocks are counted: those of its kind, and its own."""
    facts = json.dumps(facts_of(snapshot), sort_keys=True).encode()
    return f"kind-{hashlib.sha256(facts).hexdigest()[:16]}", f"node-{node}"


def preferred(due: Collection[Due], had: Sequence[Mapping[str, int]]) -> list[Due]:
    """Best first. `had`: blocks by workload that the kind has had, then those that the node has. O(due log due)."""

    def key(block: Due) -> tuple[object, ...]:
        counts = [table.get(block.workload, 0) for table in had]
        return (*map(_need, counts), *counts, block.round, block.index)

    return sorted(due, key=key)


def candidates(room: Room, groups: Sequence[str], seconds: float) -> Iterator[Path]:
    """Folders of blocks that nobody has claimed and that end within so many seconds, best first. O(due log due)."""
    due = [block for block in read_due(room) if block.seconds <= seconds]
    for block in preferred(due, [_counts(room, group) for group in groups]):
        folder = room.block(block.index)
        if folder.exists() and not (folder / lease.LEASE).exists():
            yield folder


def count(room: Room, groups: Sequence[str], workload: str, stage: str) -> None:
    """One of the groups takes a block: a byte more, which machines can append at the same time."""
    for group in groups if stage != WARM_UP else ():
        path = _path(room, group, workload)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(b".")


def uncount(room: Room, groups: Sequence[str], workload: str, stage: str) -> None:
    """A block that does not count after all: lost, refused, or to be repeated."""
    for group in groups if stage != WARM_UP else ():
        path = _path(room, group, workload)
        with suppress(OSError):
            os.truncate(path, max(path.stat().st_size - 1, 0))


@dataclass(frozen=True, slots=True)
class _List:
    blocks: tuple[Due, ...]


def _need(count: int) -> int:
    """A workload that was begun comes first, then one that was not, then what has enough."""
    return 2 if count >= ENOUGH else 0 if count else 1


def _counts(room: Room, group: str) -> dict[str, int]:
    try:
        return {_workload(entry.name): entry.stat().st_size for entry in os.scandir(room.had / group)}
    except OSError:
        return {}


def _path(room: Room, group: str, workload: str) -> Path:
    return room.had / group / workload.replace("%", "%25").replace("/", "%2F")


def _workload(name: str) -> str:
    return name.replace("%2F", "/").replace("%25", "%")

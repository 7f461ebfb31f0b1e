# SPDX-License-Identifier: Apache-2.0
"""Who takes which block: make-believe nodes of several kinds and speeds, that come and die, all by the real files."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from heapyard.api.fleet import dealing, lease
from heapyard.api.fleet.dealing import Due, candidates, count, preferred, uncount, write_due
from heapyard.api.fleet.room import Room, around

WORKLOADS = tuple(f"w{n}" for n in range(7))


def due(rounds: int) -> list[Due]:
    """In the order of rounds, as a stage is planned."""
    luck, made = random.Random(rounds), []
    for number in range(rounds):
        names = luck.sample(WORKLOADS, len(WORKLOADS))
        made += [Due(len(made) + place, name, "main", number, 60.0) for place, name in enumerate(names)]
    return made


def lay_out(room: Room, blocks: list[Due]) -> None:
    write_due(room, blocks)
    for block in blocks:
        room.block(block.index).mkdir(parents=True)


def carried_out(
    room: Room, blocks: list[Due], nodes: Mapping[str, tuple[str, float, float]], deaths: float, seed: int
) -> Counter:
    """Blocks that counted by (kind, workload). `nodes`: kind, speed, and when it comes. `deaths`: share of blocks it dies in."""
    luck, done, by_index = random.Random(seed), Counter(), {block.index: block for block in blocks}
    comes = enumerate(nodes.items())
    events: list[tuple[float, int, str, Path | None]] = [(when, i, name, None) for i, (name, (_, _, when)) in comes]
    heapq.heapify(events)
    serial = len(events)
    while events:
        now, _, name, folder = heapq.heappop(events)
        kind, speed, _ = nodes[name]
        groups = (f"kind-{kind}", f"node-{name}")
        if folder is not None:
            block = by_index[int(folder.name)]
            if luck.random() < deaths:  # the controller repeats the block, as a new one
                uncount(room, groups, block.workload, block.stage)
                again = Due(len(by_index), block.workload, block.stage, block.round, block.seconds)
                by_index[again.index] = again
                room.block(again.index).mkdir(parents=True)
                write_due(room, list(by_index.values()))
            else:
                done[kind, block.workload] += 1
        for found in candidates(room, groups, 600.0):
            if lease.take(found, name, "", 0.0, groups):
                block = by_index[int(found.name)]
                count(room, groups, block.workload, block.stage)
                serial += 1
                heapq.heappush(events, (now + luck.uniform(0.9, 1.1) / speed, serial, name, found))
                break
    return done


def short(done: Counter, kind: str) -> int:
    """Workloads that the kind cannot be judged by, though it has run them."""
    return sum(0 < done[kind, workload] < dealing.ENOUGH for workload in WORKLOADS)


FLEETS = {
    "one odd node": {"a": ("x", 1.0, 0.0), "b": ("x", 1.0, 0.0), "c": ("y", 1.0, 0.0)},
    "a slow one": {"a": ("x", 1.0, 0.0), "b": ("x", 1.1, 0.0), "c": ("y", 0.6, 0.0)},
    "late ones": {"a": ("x", 1.0, 0.0), "b": ("x", 1.0, 3.5), "c": ("y", 1.0, 5.0), "d": ("y", 0.8, 9.0)},
    "many of one": {**{f"n{i}": ("x", 1.0, i / 9) for i in range(9)}, "odd": ("y", 1.3, 0.0)},
}


@pytest.mark.parametrize("deaths", [0.0, 0.1])
@pytest.mark.parametrize("fleet", FLEETS)
def test_every_kind_can_be_judged(tmp_path: Path, fleet: str, deaths: float) -> None:
    """At most one workload of a kind has a single block: the one in hand when there were none left."""
    blocks, room = due(8), Room(tmp_path)
    lay_out(room, blocks)
    done = carried_out(room, blocks, FLEETS[fleet], deaths, seed=1)
    assert done.total() == len(blocks), "each block counts once"
    for kind in ("x", "y"):
        there = sum(done[kind, workload] for workload in WORKLOADS)
        judged = sum(done[kind, workload] >= dealing.ENOUGH for workload in WORKLOADS)
        assert judged >= min(there // 2, len(WORKLOADS)) - 1 and short(done, kind) <= 1, done


def test_the_order_of_rounds_would_not_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: it does where nodes take blocks as they come."""
    monkeypatch.setattr(dealing, "preferred", lambda due, had: list(due))
    missed = 0
    for seed, fleet in enumerate(FLEETS.values()):
        room = Room(tmp_path / str(seed))
        blocks = due(8)
        lay_out(room, blocks)
        done = carried_out(room, blocks, fleet, 0.0, seed)
        missed += max(short(done, kind) for kind in ("x", "y"))
    assert missed > 1


def test_a_pair_is_completed_before_another_is_begun() -> None:
    had = [{"w1": 1, "w2": 2}, {}]
    order = [block.workload for block in preferred([Due(i, f"w{i}", "main", 0, 1.0) for i in range(4)], had)]
    assert order == ["w1", "w0", "w3", "w2"]


def test_what_a_job_has_no_time_for_is_left_to_others(tmp_path: Path) -> None:
    room = Room(tmp_path)
    lay_out(room, [Due(0, "long", "main", 0, 500.0), Due(1, "short", "main", 0, 5.0)])
    assert [folder.name for folder in candidates(room, ("kind-x", "node-a"), 60.0)] == ["000001"]
    assert around(room.block(1)) == room


def test_counts_survive_odd_names_and_a_loss(tmp_path: Path) -> None:
    room, groups = Room(tmp_path), ("kind-x", "node-a")
    for _ in range(2):
        count(room, groups, "acdc/100%", "main")
    count(room, groups, "acdc/100%", "warmup")  # uncounted by nature
    uncount(room, groups, "acdc/100%", "main")
    uncount(room, groups, "never", "main")
    assert dealing._counts(room, "kind-x") == {"acdc/100%": 1}

# SPDX-License-Identifier: Apache-2.0
"""When the blocks of a study would run on the nodes of a fleet: an event-driven simulation of the engine's own policy.

A block is the unit: it runs on one node, which is its own meanwhile. Free nodes take due blocks in the order of rounds,
repeated ones at the end of their round. A stage begins when the one before has ended: warm-up, pilot, main.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush


@dataclass(frozen=True, slots=True)
class Piece:
    """A block to be given out.

    `seconds`: what it takes when it runs to its end. `cuts`: earlier attempts, by the seconds after which a guard trips
    in each; an attempt that may not be repeated any more runs to its end instead.
    """

    round: int
    seconds: float
    cuts: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a simulated run came to; times in seconds. `busy`: of each node, the start of its jobs included."""

    duration: float
    busy: tuple[float, ...]
    repeated: int

    @property
    def node_seconds(self) -> float:
        """Time in which nodes belonged to jobs."""
        return sum(self.busy)

    @property
    def full(self) -> float:
        """The share of the nodes' time, from begin to end, in which they had a job."""
        return self.node_seconds / (self.duration * len(self.busy)) if self.duration else 0.0


def simulate(
    stages: Sequence[Sequence[Piece]], nodes: int, *, job_start: float = 0.0, most_repeats: float = float("inf")
) -> Schedule:
    """Run the stages one after another on so many nodes; every attempt at a block is a job that takes `job_start` to begin.

    `most_repeats`: attempts that may be given up in all. ValueError without a node. O(attempts log attempts + nodes).
    """
    if nodes < 1:
        raise ValueError(f"{nodes} nodes")
    busy, now, repeated = [0.0] * nodes, 0.0, 0
    for pieces in stages:
        due = [(piece.round, False, place) for place, piece in enumerate(pieces)]
        heapify(due)
        free = deque(range(nodes))
        tried = [0] * len(pieces)
        running: list[tuple[float, int, int, float, bool]] = []  # end, place, node, begin, whether a guard trips then
        while due or running:
            while due and free:
                _, _, place = heappop(due)
                piece, node = pieces[place], free.popleft()
                trips = tried[place] < len(piece.cuts)
                lasts = piece.cuts[tried[place]] if trips else piece.seconds
                heappush(running, (now + job_start + lasts, place, node, now, trips))
            now, place, node, begin, trips = heappop(running)
            piece = pieces[place]
            if trips and repeated >= most_repeats:
                heappush(running, (begin + job_start + piece.seconds, place, node, begin, False))
                continue
            busy[node] += now - begin
            free.append(node)
            if trips:
                tried[place] += 1
                repeated += 1
                heappush(due, (piece.round, True, place))
    return Schedule(now, tuple(busy), repeated)

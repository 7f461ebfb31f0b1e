# SPDX-License-Identifier: Apache-2.0
"""Randomised complete blocks: which treatment runs when, fixed before the first trial and the same on every machine.

No pseudo-random generator is involved: labels are sorted by the SHA-256 of (seed, round, workload, attempt, label).
The hash plays the part of a random oracle, so every order is equally likely, and a plan depends on nothing but its
own key: not on the Python version, not on PYTHONHASHSEED, not on how many trials ran before, nor on how the pilot
went.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from ..model.experiment import Block

PAD_LIMIT = 4096  # bytes: one page covers every alignment of the initial stack within a page


def make_blocks(
    workloads: Sequence[str],
    labels: Sequence[str],
    rounds: range | Mapping[str, range],
    *,
    seed: int,
    stage: str,
    first_index: int,
) -> list[Block]:
    """One block per workload and round, rounds in ascending order, workloads shuffled anew in every round.

    `rounds` is one range for all workloads or one per workload (stage 2, where each has its own number of blocks; a
    workload that is absent gets none). Blocks are numbered from `first_index`. Content of a block depends on (seed,
    workload, round) and the set of labels only. ValueError on a repeated name or label. O(blocks x labels x log
    labels).
    """
    _distinct(workloads, "workload")
    _distinct(labels, "label")
    by_workload = {w: rounds if isinstance(rounds, range) else rounds.get(w, range(0)) for w in workloads}
    planned: list[Block] = []
    for number in sorted(set().union(*by_workload.values())):
        due = [w for w in workloads if number in by_workload[w]]
        for workload in sorted(due, key=lambda w: place_in_round(seed, number, w)):
            planned.append(_block(workload, labels, number, 0, seed, stage, first_index + len(planned)))
    return planned


def place_in_round(seed: int, number: int, workload: str) -> bytes:
    """What the workloads of a round are sorted by."""
    return _digest(seed, "workload", number, workload)


def repeat(block: Block, *, seed: int, index: int) -> Block:
    """The same block once more after a tripped guard: next attempt, a fresh shuffle, its own `index`."""
    return _block(block.workload, block.order, block.round, block.attempt + 1, seed, block.stage, index)


def plan_hash(blocks: Iterable[Block]) -> str:
    """SHA-256 (hex) over what will run in which order: two plans agree exactly when their hashes do."""
    text = "\n".join(repr((b.index, b.stage, b.round, b.workload, b.order, b.pads, b.attempt)) for b in blocks)
    return hashlib.sha256(text.encode()).hexdigest()


def _block(workload: str, labels: Iterable[str], number: int, attempt: int, seed: int, stage: str, index: int) -> Block:
    key = (seed, "order", number, workload, attempt)
    order = tuple(sorted(labels, key=lambda label: _digest(*key, label)))
    pads = tuple(int.from_bytes(_digest(*key, "pad", place)[:8]) % PAD_LIMIT for place in range(len(order)))
    return Block(index, stage, number, workload, order, pads, attempt)


def _digest(*key: object) -> bytes:
    return hashlib.sha256(repr(key).encode()).digest()


def _distinct(names: Sequence[str], what: str) -> None:
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{what} '{twice}' is named twice")

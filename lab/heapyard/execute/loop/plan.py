# SPDX-License-Identifier: Apache-2.0
"""The plan of an experiment as the loop carries it out: blocks and their outcomes, always as the journal has them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...design.blocks import make_blocks, repeat
from ...model.experiment import Block, BlockStatus, Experiment
from ...model.journal import Journal

WARM_UP, PILOT, MAIN = "warmup", "pilot", "main"

Pair = tuple[str, str]  # workload, treatment label


class Plan:
    """Every change goes to the journal first. What is asked at every trial is O(1), or O(workloads); a change is O(due blocks)
    moves of pointers; the rest is O(blocks)."""

    def __init__(self, experiment: Experiment, journal: Journal):
        self._experiment, self._journal = experiment, journal
        self._blocks: dict[int, tuple[Block, BlockStatus]] = {}
        self._due: dict[str, list[Block]] = defaultdict(list)  # by stage, in the order they run
        self._alike: Counter[tuple[str, tuple[str, ...]]] = Counter()  # due blocks by workload and labels
        self._counts: Counter[BlockStatus] = Counter()  # the warm-up apart
        self._firsts: Counter[str] = Counter()  # first attempts by stage
        for block, status in journal.plan():
            self._enter(block, status)

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def extend(
        self, stage: str, labels: Sequence[str], rounds: range | Mapping[str, range], without: Iterable[Pair] = ()
    ) -> None:
        """Append a stage, or more of it.

        Pairs of workload and treatment in `without` are left out; the rest keeps its random order.
        """
        workloads = [p.name for p in self._experiment.programs]
        planned = make_blocks(
            workloads, labels, rounds, seed=self._experiment.settings.seed, stage=stage, first_index=len(self._blocks)
        )
        self._add([_without(block, set(without)) for block in planned])

    def repeat(self, block: Block) -> None:
        """Give the block up and plan it once more."""
        self.end(block, "repeated")
        self._add([repeat(block, seed=self._experiment.settings.seed, index=len(self._blocks))])

    def end(self, block: Block, status: BlockStatus) -> None:
        self._journal.end_block(block, status)
        self._leave(block)
        self._enter(block, status)

    def due(self, stage: str | None = None) -> list[Block]:
        """Planned blocks of the stage (or of all) in the order they run; repeated ones at the end of their round.

        What tripped a guard may be over by then.
        """
        if stage is not None:
            return list(self._due[stage])
        return sorted((b for blocks in self._due.values() for b in blocks), key=_turn)

    def due_alike(self) -> Mapping[tuple[str, tuple[str, ...]], int]:
        """How many due blocks there are of a workload with these labels, in alphabetical order."""
        return self._alike

    def cut_short(self) -> list[Block]:
        """Blocks that were begun and not ended: where an earlier session was interrupted."""
        return [b for b, status in self._blocks.values() if status == "started"]

    def of(self, stage: str, status: BlockStatus | None = None, workload: str | None = None) -> Iterator[Block]:
        return (
            b
            for b, s in self._blocks.values()
            if b.stage == stage and status in (None, s) and workload in (None, b.workload)
        )

    def rounds(self, workload: str) -> int:
        """Blocks of the workload that are planned in all stages so far, the warm-up and repetitions apart."""
        return max((b.round + 1 for b, _ in self._measured(workload)), default=0)

    def last_labels(self, workload: str) -> tuple[str, ...]:
        """Who takes part in the workload's last round; what was released before does not."""
        last = max((b for b, _ in self._measured(workload)), key=lambda b: b.round, default=None)
        return last.order if last else ()

    def done_blocks(self, workload: str) -> list[int]:
        """Indices of the workload's blocks that count."""
        return [b.index for b, status in self._measured(workload) if status == "done"]

    def _measured(self, workload: str) -> Iterator[tuple[Block, BlockStatus]]:
        return ((b, s) for b, s in self._blocks.values() if b.workload == workload and b.stage != WARM_UP)

    def count(self, *wanted: BlockStatus) -> int:
        """Blocks of these states, the warm-up apart."""
        return sum(self._counts[status] for status in wanted)

    @property
    def done(self) -> int:
        return self.count("done")

    @property
    def planned(self) -> int:
        """Blocks that were or will be measured."""
        return self.count("done", "planned", "started")

    @property
    def certain(self) -> int:
        """Blocks that the share of repeated ones is taken of: the first stage, or what is done if that is more. What a second
        stage plans may be far more than the budget ever lets it run."""
        return max(self._firsts[PILOT] or self._firsts[MAIN], self.done)

    def _add(self, blocks: list[Block]) -> None:
        if blocks:
            self._journal.add_blocks(blocks)
            for block in blocks:
                self._enter(block, "planned")

    def _enter(self, block: Block, status: BlockStatus) -> None:
        if block.index not in self._blocks and block.attempt == 0:
            self._firsts[block.stage] += 1
        self._blocks[block.index] = block, status
        if block.stage != WARM_UP:
            self._counts[status] += 1
        if status == "planned":
            insort(self._due[block.stage], block, key=_turn)
            self._alike[_kind(block)] += 1

    def _leave(self, block: Block) -> None:
        """Before the block gets another status."""
        _, status = self._blocks[block.index]
        if block.stage != WARM_UP:
            self._counts[status] -= 1
        if status == "planned":
            due = self._due[block.stage]
            del due[bisect_left(due, _turn(block), key=_turn)]
            self._alike[_kind(block)] -= 1
            if not self._alike[_kind(block)]:
                del self._alike[_kind(block)]


def _turn(block: Block) -> tuple[int, bool, int]:
    """Rounds in order; in a round, repeated blocks last."""
    return block.round, block.attempt > 0, block.index


def _kind(block: Block) -> tuple[str, tuple[str, ...]]:
    return block.workload, tuple(sorted(block.order))


def _without(block: Block, dropped: set[Pair]) -> Block:
    kept = [
        (label, pad)
        for label, pad in zip(block.order, block.pads, strict=True)
        if (block.workload, label) not in dropped
    ]
    return replace(block, order=tuple(label for label, _ in kept), pads=tuple(pad for _, pad in kept))

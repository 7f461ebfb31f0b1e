# SPDX-License-Identifier: Apache-2.0
"""The plan of an experiment as the loop carries it out: blocks and their outcomes, always as the journal has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...design.blocks import make_blocks, repeat
from ...model.experiment import Block, BlockStatus, Experiment
from ...model.journal import Journal

WARM_UP, PILOT, MAIN = "warmup", "pilot", "main"

Pair = tuple[str, str]  # workload, treatment label


class Plan:
    """Every change goes to the journal first. Queries are O(blocks log blocks)."""

    def __init__(self, experiment: Experiment, journal: Journal):
        self._experiment, self._journal = experiment, journal
        self._blocks: dict[int, tuple[Block, BlockStatus]] = {b.index: (b, status) for b, status in journal.plan()}

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
        self._blocks[block.index] = (block, status)

    def due(self, stage: str | None = None) -> list[Block]:
        """Planned blocks of the stage (or of all) in the order they run; repeated ones at the end of their round.

        What tripped a guard may be over by then.
        """
        due = (b for b, status in self._blocks.values() if status == "planned" and stage in (None, b.stage))
        return sorted(due, key=lambda b: (b.round, b.attempt > 0, b.index))

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
        return sum(status in wanted and block.stage != WARM_UP for block, status in self._blocks.values())

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
        first = PILOT if any(self.of(PILOT)) else MAIN
        return max(sum(block.attempt == 0 for block in self.of(first)), self.done)

    def _add(self, blocks: list[Block]) -> None:
        if blocks:
            self._journal.add_blocks(blocks)
            self._blocks.update((b.index, (b, "planned")) for b in blocks)


def _without(block: Block, dropped: set[Pair]) -> Block:
    kept = [
        (label, pad)
        for label, pad in zip(block.order, block.pads, strict=True)
        if (block.workload, label) not in dropped
    ]
    return replace(block, order=tuple(label for label, _ in kept), pads=tuple(pad for _, pad in kept))

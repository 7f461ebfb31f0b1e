# SPDX-License-Identifier: Apache-2.0
"""What an experiment writes down while it runs, and reads back when it is resumed; the store keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from .experiment import Block, BlockStatus, Experiment, TrialOutcome
from .record import TrialRecord

# Kinds of events; the text of an event is one sentence for people.
REPEATED, DROPPED, ABANDONED = "block repeated", "treatment dropped", "workload abandoned"
NOTED, PLANNED, UNCOUNTED, SETTLED = "guard noted", "planned", "counting failed", "settled"
INTERRUPTED, RESUMED, BUDGET, FLEET = "interrupted", "resumed", "budget used up", "fleet"


class Journal(Protocol):
    """A growing record.

    Every call is durable when it returns: a killed experiment loses at most the trial in flight.
    """

    @property
    def experiment(self) -> Experiment: ...

    def add_blocks(self, blocks: Sequence[Block]) -> None:
        """Append to the plan; called before any of the blocks runs."""

    def plan(self) -> list[tuple[Block, BlockStatus]]:
        """Everything planned so far, in the order of block indices."""

    def trials(self) -> Iterable[TrialRecord]:
        """Every trial that was started, oldest first."""

    def start_trial(self, block: Block, position: int) -> int:
        """Before a launch; returns the trial's id."""

    def end_trial(self, trial: int, outcome: TrialOutcome) -> None:
        """After it: the trial is complete."""

    def end_block(self, block: Block, status: BlockStatus) -> None: ...

    def event(self, kind: str, text: str) -> None: ...

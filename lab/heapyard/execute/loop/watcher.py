# SPDX-License-Identifier: Apache-2.0
"""What the loop reports to a display, between trials only. While a trial runs, the lab does nothing."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.experiment import Block, TrialOutcome


@dataclass(frozen=True, slots=True)
class Moment:
    """Where the experiment stands as a trial begins.

    `remaining`: expected seconds to the end, from the medians so far.
    """

    block: Block
    position: int
    blocks_done: int
    blocks_planned: int
    trials_done: int
    spent: float
    remaining: float
    budget: float | None
    at: str = ""  # the rate of the trial, where a search tries several

    @property
    def treatment(self) -> str:
        return self.block.order[self.position]


class Watcher:
    """Sees everything and does nothing; progress displays override what they show."""

    def trial_begins(self, moment: Moment) -> None: ...

    def trial_ended(self, moment: Moment, outcome: TrialOutcome) -> None: ...

    def event(self, kind: str, text: str) -> None: ...

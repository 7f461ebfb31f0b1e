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


@dataclass(frozen=True, slots=True)
class Away:
    """Where an experiment stands whose blocks run on other machines. `remaining`: seconds by clock."""

    blocks_done: int
    blocks_planned: int
    out: int  # blocks that are given out
    nodes: tuple[str, ...]  # which run some of them now
    spent: float  # seconds in trials, of all nodes
    remaining: float


class Watcher:
    """Sees everything and does nothing; progress displays override what they show."""

    def trial_begins(self, moment: Moment) -> None: ...

    def trial_ended(self, moment: Moment, outcome: TrialOutcome) -> None: ...

    def waits(self, away: Away) -> None:
        """For blocks of other machines; told about every second."""

    def event(self, kind: str, text: str) -> None: ...

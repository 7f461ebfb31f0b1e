# SPDX-License-Identifier: Apache-2.0
"""A block with all that it takes to run it, on this machine or on another; and what its outcomes make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...model.experiment import Block, Settings, Treatment, TrialOutcome
from ...model.journal import NOTED, REPEATED
from ...model.program import Program
from .plan import WARM_UP


class Stopped(Exception):
    """The user wants an end; the block in hand stays `started`, to be repeated on resumption."""


@dataclass(frozen=True, slots=True)
class Errand:
    """Decided when the block is given out. `settings` are the user's, with the time limit that earlier trials suggest."""

    block: Block
    program: Program
    treatments: tuple[Treatment, ...]  # by position in the block's order
    settings: Settings
    positions: tuple[int, ...]  # which of them run
    held: tuple[float, ...]  # bytes that the trial at each position may touch, 0 where nobody knows yet
    slice: float  # seconds; 0 = one trial after another
    repeatable: bool  # does a tripped guard repeat the block?

    @property
    def name(self) -> str:
        """As events call it."""
        block = self.block
        return f"{block.workload}, block {block.round + 1}" + (f", attempt {block.attempt + 1}" if block.attempt else "")


def cut_by_guard(errand: Errand, outcomes: Iterable[tuple[int, TrialOutcome]], tell: Callable[[str, str], None]) -> bool:
    """Takes the outcomes of a block as they come; True when a guard tripped and the whole block must be repeated.

    Takes no more of them once the rest does not count. `tell` is given kind and text of events. Stopped when a trial was
    interrupted.
    """
    noted = False
    for position, outcome in outcomes:
        if outcome.status == "interrupted":
            raise Stopped
        if outcome.tripped and errand.block.stage != WARM_UP and not noted:
            what = f"{errand.name}: {'; '.join(outcome.tripped)}"
            if errand.repeatable:
                # The rest of a block that does not count need not run.
                tell(REPEATED, f"{what}; the whole block is repeated")
                return True
            limit = f"{errand.settings.redo_limit:.0%}"
            tell(NOTED, f"{what}; counted all the same: {limit} of the blocks were repeated already")
            noted = True
        if outcome.status == "failed" and errand.block.order[position] == errand.settings.baseline:
            break
    return False

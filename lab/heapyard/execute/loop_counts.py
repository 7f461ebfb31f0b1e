# SPDX-License-Identifier: Apache-2.0
"""Counting launches beside the trials of the first rounds: system calls and instructions hardly vary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..model.experiment import Settings, Treatment, TrialOutcome
from ..model.program import Program

COUNTED_ROUNDS = 3  # of each workload: enough to see whether a count varies at all

Count = Callable[[Program, Treatment, Settings, Path], dict[str, float]]


def counts_for(settings: Settings) -> tuple[Count, ...]:
    """The counting launches that the settings ask for."""
    from .counting import count_instructions, count_syscalls

    wanted = ((settings.count_syscalls, count_syscalls), (settings.count_instructions, count_instructions))
    return tuple(count for asked, count in wanted if asked)


def still_wanted(count: Count, outcome: TrialOutcome) -> bool:
    """Instructions need no launch of their own where the hardware has counted them already."""
    return not (count.__name__ == "count_instructions" and "instructions" in outcome.metrics)

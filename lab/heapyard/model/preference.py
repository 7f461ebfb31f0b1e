# SPDX-License-Identifier: Apache-2.0
"""What the reader wants of an allocator; said on the command line, never a score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Prefer = Literal["time", "memory", "balance"]
PREFERENCES: tuple[str, ...] = get_args(Prefer)


@dataclass(frozen=True, slots=True)
class Preference:
    """`time`: the least time, or less memory where that costs no time that could be shown. `memory`: the other way round.
    `balance`: only what is better in one and shown to be no worse in the other, and of these the least time.

    `memory_limit`: only what is shown to need at most so much more memory than the baseline (ratio minus one); None: no limit.
    """

    prefer: Prefer = "time"
    memory_limit: float | None = None


BY_TIME = Preference()

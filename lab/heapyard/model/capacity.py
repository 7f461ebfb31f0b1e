# SPDX-License-Identifier: Apache-2.0
"""What a search for capacities found, ready to be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .analysis import Interval, Verdict
from .limits import Limit


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests a second, with the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Capacity:
    """One allocator's. `rate` is None where the trials do not bound it from both sides.

    `kept_up_to`: the highest rate at which a trial kept the limits; `broken_from`: the lowest at which one broke them; None
    without such a trial. `ratio` to the baseline's, with an interval that holds for all allocators together; None for the
    baseline. `near`: means of responses over the trials near the capacity, by metric. `broke`: what trials broke. `failed`:
    why it was given up.
    """

    treatment: str
    trials: int
    kept: int
    rate: Rate | None = None
    kept_up_to: float | None = None
    broken_from: float | None = None
    ratio: Interval | None = None
    verdict: Verdict | None = None
    near: Mapping[str, float] = field(default_factory=dict)
    broke: tuple[str, ...] = ()
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Capacities:
    """The answer of a search. `control` is the baseline's second appearance. `left_out`: disturbed trials."""

    limits: tuple[Limit, ...]
    baseline: str
    rows: tuple[Capacity, ...]  # the baseline first, then the highest capacity first
    control: Capacity | None
    left_out: int = 0
    memory: str = ""  # which response of memory `near` leads with

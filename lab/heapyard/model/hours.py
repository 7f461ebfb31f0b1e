# SPDX-License-Identifier: Apache-2.0
"""What a server did under its load for hours: as it was noted, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

SIDE_BY_SIDE, IN_TURNS = "side by side", "in turns"
Motion = Literal["grows", "shrinks", "steady", "undecided"]


@dataclass(frozen=True, slots=True)
class Sample:
    """A look at all processes of a server. `at`: seconds that it has been under load, all stretches together.

    Memory in bytes, added up over processes: what they share counts in each. `peak`: the sum of each one's own peak.
    """

    stretch: int
    at: float
    clock: float  # seconds since 1970
    rss: int
    anonymous: int
    peak: int
    processes: int
    cpu: float  # seconds so far


@dataclass(frozen=True, slots=True)
class Pass:
    """One run of the load: when it began and ended, as `Sample.at`, and its responses by name."""

    stretch: int
    begin: float
    end: float
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Time of one launch without a gap. `fresh`: the server was started for it, and not found running."""

    number: int
    clock: float
    fresh: bool
    pid: int
    begin: float
    traces: str = ""  # the folder of its profile, "" without one
    ended: str = ""  # why, as the end of "... ended: "; "" if it has not


@dataclass(slots=True)
class Noted:
    """All that is known of one allocator's server. `failed`: why it was given up, "" if it was not."""

    name: str
    stretches: list[Stretch] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    notes: list[tuple[float, str]] = field(default_factory=list)
    failed: str = ""

    @property
    def seconds(self) -> float:
        """How long it has been under load."""
        return max((self.samples[-1].at if self.samples else 0.0, self.passes[-1].end if self.passes else 0.0))


@dataclass(frozen=True, slots=True)
class Slope:
    """Change of a response per second, with the half-width of its 95 % interval.

    `level`: the response's mean; `seconds`: over which it was seen. `memory`: the correlation of what is left between
    neighbouring blocks, from 0 to 1. Near 1 the response wanders, and the interval is too narrow.
    """

    value: float
    half: float
    level: float
    seconds: float
    memory: float

    @property
    def motion(self) -> Motion:
        """Steady: it changes by less than STEADY of its level over all the time, at either end of the interval."""
        if abs(self.value) > self.half:
            return "grows" if self.value > 0 else "shrinks"
        most = (abs(self.value) + self.half) * self.seconds
        return "steady" if most <= STEADY * abs(self.level) else "undecided"

    @property
    def wanders(self) -> bool:
        return self.memory > WANDERS and self.half > MATTERS * abs(self.value)


STEADY = 0.05
WANDERS = 0.9
BENDS = 0.2  # of the steeper half
MATTERS = 0.1  # of the slope: a narrower interval may be somewhat too narrow, and the answer stays


@dataclass(frozen=True, slots=True)
class Spike:
    """Memory that rose above its course and fell again: bytes above it, seconds that it lasted, bytes that stayed."""

    at: float
    height: float
    lasted: float
    stays: float


@dataclass(frozen=True, slots=True)
class Hour:
    """A row of the report: means over the time from `begin` to `end`; None where nothing was measured."""

    begin: float
    end: float
    rss: float | None
    most: float | None
    rate: float | None
    latency: float | None
    live: float | None = None


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What is said of a server under one allocator. Slopes are None where too little was measured.

    `halves`: the slope before and after the middle of the time that counts. `live`: bytes of live blocks, `held`: what is
    resident beyond them; with a profile only.
    """

    noted: Noted
    hours: tuple[Hour, ...]
    rss: Slope | None = None
    halves: tuple[Slope | None, Slope | None] = (None, None)
    live: Slope | None = None
    held: Slope | None = None
    rate: Slope | None = None
    latency: Slope | None = None
    spikes: tuple[Spike, ...] = ()

    @property
    def name(self) -> str:
        return self.noted.name

    @property
    def bends(self) -> bool:
        """Do the slopes of the two halves differ by more than their intervals allow, and by as much as matters?"""
        first, second = self.halves
        if first is None or second is None:
            return False
        change = abs(second.value - first.value)
        return change > (first.half**2 + second.half**2) ** 0.5 and change > BENDS * max(abs(first.value), abs(second.value))


@dataclass(frozen=True, slots=True)
class HoursAnswer:
    """`seconds`: that were asked for in all; `mode`: SIDE_BY_SIDE or IN_TURNS, "" for a single one; `why`: who chose it.

    `latency_name`: which response the column of latencies has; "" if the load tells none.
    """

    title: str
    loads: tuple[str, ...]
    servers: tuple[ServerAnswer, ...]
    seconds: float
    period: float
    mode: str
    why: str
    latency_name: str
    complete: bool
    machine: Mapping[str, object] = field(default_factory=dict)
    folder: str = ""


def latency_of(passes: Sequence[Pass], lead: str = "") -> str:
    """The response that stands for latency: `lead`, the highest percentile up to p99, the mean, the time of a pass. "" of none."""
    names = dict.fromkeys(name for one in passes for name in one.metrics)
    if lead:
        return lead if lead in names else ""
    wanted = ("latency_p99", "latency_p95", "latency_p90", "latency_mean")
    return next((name for name in (*wanted, "pass_time") if name in names), "")

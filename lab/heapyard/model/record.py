# SPDX-License-Identifier: Apache-2.0
"""A stored experiment as reports and exports read it. Made by store; every number carries the trial it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .experiment import Experiment, TrialStatus
from .memory_parts import MemoryParts
from .observations import Observations


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One trial as stored. `started` and `ended` are seconds since the experiment began; `series` is read on demand."""

    id: int
    block: int
    attempt: int
    stage: str
    workload: str
    treatment: str
    position: int
    status: TrialStatus
    counted: bool  # part of a complete, unrepeated block
    started: float
    ended: float
    metrics: dict[str, float]
    command_line: str
    provider: str = ""
    answer: str = ""
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    failure: str = ""
    stderr_tail: str = ""
    guards: dict[str, float] = field(default_factory=dict)
    tripped: tuple[str, ...] = ()
    series: str = ""  # sha256 of its series file, "" if none
    round: int = 0  # the how-manieth block of its workload
    result: str = ""  # sha256 of what a mutator wrote, "" if none
    node: str = ""  # the machine of a fleet that ran it, "" for the lab's own
    loaded: tuple[float, float] = (0.0, 0.0)  # when a server's load began and ended, in seconds since it was started


@dataclass(frozen=True, slots=True)
class Event:
    """A line of the experiment's own log: a repeated block, an interruption, a resumption, the budget used up."""

    at: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Record:
    """Everything known of one experiment. `status`: running | finished | interrupted | failed."""

    id: str
    path: Path
    status: str
    created: str  # ISO 8601, UTC
    version: str  # of heapyard
    experiment: Experiment
    environment: dict[str, object]
    trials: tuple[TrialRecord, ...]
    events: tuple[Event, ...]
    observations: Observations
    memory: tuple[MemoryParts, ...] = ()  # where it lies, if that was asked
    nodes: dict[str, dict[str, object]] = field(default_factory=dict)  # a fleet's machines by name, as `environment`

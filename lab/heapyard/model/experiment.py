# SPDX-License-Identifier: Apache-2.0
"""An experiment before and while it runs: settings, treatments, blocks, trials, outcomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .allocator import Allocator
from .claim import Claim
from .figure import Figure
from .fleet import Fleet
from .limits import Limit
from .metrics import PRIMARY_MEMORY, PRIMARY_TIME, Metric
from .program import Program
from .simulation import Simulated

Role = Literal["treatment", "control"]
TrialStatus = Literal["planned", "started", "ok", "failed", "interrupted"]
Interleave = Literal["auto", "slices", "trials"]
BlockStatus = Literal["planned", "started", "done", "repeated", "abandoned"]

CONTROL_SUFFIX = " (A/A control)"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked for. Times in seconds; precision and margins as ratios minus one (0.01 = 1 %)."""

    baseline: str = "glibc"
    precision: float = 0.01  # wanted half-width of the 95 % interval of a wall-time ratio
    budget: float | None = None  # seconds for the whole experiment; None = no limit
    pilot_blocks: int = 6
    blocks: int | None = None  # fixed number of blocks; None = Stein's two-stage size
    max_blocks: int = 200
    # Numbers of blocks after which allocators that are settled on a program are released there; empty = never.
    looks: tuple[int, ...] = ()
    look_levels: tuple[float, float] = (0.001, 0.005)  # of each look: for a difference, for equivalence
    # Labels that race each other at the looks, a default first in each family: what is beaten leaves. Empty = no race.
    race: tuple[tuple[str, ...], ...] = ()
    margin_time: float = 0.02
    margin_memory: float = 0.05
    confidence: float = 0.95
    timeout: float = 300.0  # per trial
    patience: float = (
        0.0  # a trial may also last at most so many times the baseline's warm-up (at least 10 s); 0 = no such limit
    )
    cpus: tuple[int, ...] = ()  # CPU affinity of every trial; empty = all
    seed: int = 0
    sample_interval: float = 0.01  # seconds between memory samples, stretched when sampling would cost over 1 %
    count_syscalls: bool = False
    count_instructions: bool = False
    redo_limit: float = 0.2  # share of blocks that may be repeated because a guard tripped
    time_metric: str = PRIMARY_TIME  # the two responses that the verdict and the Pareto front speak of
    memory_metric: str = PRIMARY_MEMORY
    # How the trials of a block share the machine: one after another, or by turns in slices where a program can be sliced;
    # "auto": where that is the more precise too (design/interleaving.py). A slice has `slice` seconds; 0: as caches ask for.
    interleave: Interleave = "trials"
    slice: float = 0.0
    change_system: bool = False  # a level may change a setting of the machine for the time of one trial
    limits: tuple[Limit, ...] = ()  # the experiment searches for the highest rate at which a server keeps them
    start_rate: float = 0.0  # requests a second, where that search begins
    control_groups: bool = False  # each trial has a control group for itself, whose account of memory is read too
    fleet: Fleet = field(default_factory=Fleet)  # where blocks run
    simulated: Simulated = field(default_factory=Simulated)  # on which machine trials run, if on none of this world


@dataclass(frozen=True, slots=True)
class Treatment:
    """What is compared within a block: an allocator at given levels of the other factors.

    `label` is unique per experiment. `levels` holds further factors: "thp" (default|always|madvise|never), "cpus" ("0,1"),
    "tracer" (off|sampled|exact|pages), "env.NAME".
    The A/A control is the baseline treatment once more, under role "control".
    """

    label: str
    allocator: Allocator
    levels: dict[str, str] = field(default_factory=dict)
    role: Role = "treatment"
    arguments: tuple[str, ...] = ()  # added to the program's own: a mutator's option under this treatment


@dataclass(frozen=True, slots=True)
class Block:
    """Every treatment of one workload once, adjacent in time, in `order` (labels, freshly shuffled).

    `stage`: "warmup" (the baseline alone, never counted) | "pilot" | "main". `attempt` counts repetitions after a tripped guard.
    """

    index: int  # position in the experiment, unique
    stage: str
    round: int  # the how-manieth block of this workload, 0-based
    workload: str  # Program.name
    order: tuple[str, ...]
    pads: tuple[int, ...]  # bytes of environment padding per position (0..4095)
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What one fresh process launch gave.

    `status` "failed": it did not count, `reason` says why in one sentence, `failure` its kind. `metrics` by name in the units of
    model.metrics. `series` holds (seconds since exec, tree RSS bytes, tree PSS bytes or -1). `provider` is the object that
    served malloc in the root process. `answer` is the sha256 of the program's answer.
    """

    status: Literal["ok", "failed", "interrupted"]
    reason: str = ""
    failure: Literal["", "exit", "signal", "timeout", "wrong answer", "no result", "not injected", "cannot start", "server",
                     "slices", "not simulated"] = ""  # fmt: skip
    metrics: dict[str, float] = field(default_factory=dict)
    series: list[tuple[float, int, int]] = field(default_factory=list)
    provider: str = ""
    answer: str = ""
    exit_code: int | None = None
    signal: int | None = None
    stderr_tail: str = ""
    command_line: str = ""  # shell-quoted, with environment additions: pasteable
    guards: dict[str, float] = field(default_factory=dict)  # steal share, throttled periods, swap-ins, ...
    tripped: tuple[str, ...] = ()  # guards over their limit, in words
    detail: dict[str, object] = field(default_factory=dict)  # processes, witnesses, ...
    result: bytes = b""  # what a mutator wrote, whole
    defined: tuple[Metric, ...] = ()  # its responses, as it describes them


@dataclass(frozen=True, slots=True)
class Experiment:
    """The request as it is stored before the first trial. `argv` is the command line that asked for it."""

    title: str
    settings: Settings
    programs: tuple[Program, ...]
    treatments: tuple[Treatment, ...]  # control included
    argv: tuple[str, ...] = ()
    cwd: str = ""
    study: str = ""  # text of the study file, "" for `compare`
    figures: tuple[Figure, ...] = ()
    claims: tuple[Claim, ...] = ()
    suite: str = ""  # the run of a folder of studies that it belongs to, such as "scalloc fast 261121-0432"

# SPDX-License-Identifier: Apache-2.0
"""A machine that is simulated, and what one run of a program on it gave."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

# What may be simulated, and what the simulator calls it; docs/simulation.md says which real machine each stands for.
MACHINES = {"server": "two-socket-server", "desktop": "desktop", "arm-server": "aarch64-server", "epyc": "epyc-guest"}
MOST_CORES = 128
USUAL_MACHINE, USUAL_CORES = "server", 64

CONTROL_SEEDS = 1 << 20  # from a block's seed to that of its control

LONGEST = 86400.0  # real seconds that a trial may take, unless said otherwise

OwnerKind = Literal["symbol", "mapping", "heap", "stack"]


@dataclass(frozen=True, slots=True)
class Simulated:
    """The machine on which the trials of an experiment run, where it is none of this world. `machine` "": a real one.

    `cores` 0: as many as the workload may use. A block's trials run with the seed `seed` + the number of its round.
    """

    machine: str = ""
    cores: int = 0
    seed: int = 0

    @property
    def wanted(self) -> bool:
        return self.machine != ""

    @property
    def words(self) -> str:
        """`server with 64 cores`."""
        return f"{self.machine} with {self.cores} {'core' if self.cores == 1 else 'cores'}"

    def for_round(self, number: int) -> Simulated:
        """The machine in a block of that round: blocks are seeds."""
        return replace(self, seed=self.seed + number) if self.wanted else self

    def for_trial(self, processors: int, *, is_control: bool) -> Simulated:
        """With as many cores as a workload asks for, where it does (the factor `processors`). The control has a seed that no
        block has, or it would be its baseline once more."""
        return replace(self, cores=processors or self.cores, seed=self.seed + (CONTROL_SEEDS if is_control else 0))


@dataclass(frozen=True, slots=True)
class Counts:
    """What happened in a run or in one of its threads. `transfers`: lines that came from another core's cache."""

    instructions: int
    loads: int
    stores: int
    atomics: int
    l1_misses: int
    l2_misses: int
    l3_misses: int
    coherence_misses: int  # of a line that the core once had, and lost to another's write
    transfers: int
    far_transfers: int  # those from another socket or cluster of cores
    invalidations: int
    lock_handovers: int  # a lock word that another thread took than had it last
    lock_waiting_seconds: float  # simulated, of all threads together
    futex_waits: int
    page_faults: int


@dataclass(frozen=True, slots=True)
class Writer:
    """A thread that wrote a line: the bytes `low` to `high` of it (`high` not included), `stores` times."""

    thread: int
    low: int
    high: int
    stores: int


@dataclass(frozen=True, slots=True)
class Place:
    """`offset` bytes into the file `module`, which code or data lies at; `count`: how many of a line's transfers it caused."""

    module: str
    offset: int
    count: int = 0
    name: str = ""  # what the engine itself knows of it


@dataclass(frozen=True, slots=True)
class Line:
    """A cache line that moved between cores. `code`: who asked for it, the most frequent first."""

    address: int
    transfers: int
    invalidations: int
    coherence_misses: int
    is_false_sharing: bool
    writers: tuple[Writer, ...]
    kind: OwnerKind
    owner: Place
    code: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One run. `seconds` and all counts are simulated; `real_seconds` is what it took. `lines`: those with the most transfers.

    `measured_seconds` and `measured`: of the phase that a mutator marks, None for a program that marks none; the lines are those
    of this phase then. `machine`: the real one that the simulated one is like.
    """

    engine: str
    machine: str
    cores: int
    hertz: float
    seed: int
    seconds: float
    measured_seconds: float | None
    totals: Counts
    threads: int
    lines: tuple[Line, ...]
    real_seconds: float
    accesses: int
    memory: int  # bytes: the most pages that the program had touched and not given back
    measured: Counts | None = None
    false_sharing_lines: int = 0  # of all lines
    warnings: tuple[str, ...] = ()  # what was not simulated

    @property
    def counts(self) -> Counts:
        """Those that speak of the program's work: of the marked phase, else of the whole run."""
        return self.measured or self.totals


COUNTS = tuple(field.name for field in fields(Counts))


@dataclass(frozen=True, slots=True)
class Access:
    """A function that asked for a line, `count` times; `place` is `file.cpp:12`, or its module where no source line is known."""

    function: str
    place: str
    count: int


@dataclass(frozen=True, slots=True)
class NamedLine:
    """A line in words. `owner`: a variable, or what kind of memory it is; `layer`: of one of our heaps, the source file below
    heap/layers whose code moves it most, "" elsewhere."""

    line: Line
    owner: str
    layer: str
    accesses: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class Simulation:
    """A program under an allocator with one seed. `run` is None where it gave none, and `reason` says why, in one sentence.

    `operations`: of the heap in the measured phase, where a mutator says it, else 0.
    """

    allocator: str
    seed: int
    run: Run | None
    lines: tuple[NamedLine, ...] = ()
    operations: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Simulations:
    """All that one command simulated, by allocator in the order asked for, then by seed. `complete`: nobody interrupted it."""

    program: str
    command: tuple[str, ...]
    machine: Simulated
    baseline: str
    runs: tuple[Simulation, ...]
    complete: bool = True

    @property
    def allocators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.allocator for one in self.runs))

    def of(self, allocator: str) -> list[Run]:
        """Its runs, by seed; those that failed are not among them."""
        return [one.run for one in self.runs if one.allocator == allocator and one.run is not None]

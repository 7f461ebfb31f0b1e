# SPDX-License-Identifier: Apache-2.0
"""A yard of make-believe for tests: programs and allocators that exist on paper, and launches that take no time."""

from __future__ import annotations

import hashlib
import math
import random
import threading
from dataclasses import dataclass, field
from pathlib import Path

from heapyard.model.allocator import Allocator
from heapyard.model.experiment import CONTROL_SUFFIX, Experiment, Settings, Treatment, TrialOutcome
from heapyard.model.program import Answer, Program

BASELINE = "glibc"


def allocator(name: str, **fields: object) -> Allocator:
    return Allocator(name=name, title=name, version="1", library=Path(f"/lib/{name}.so"), sha256=name * 2, **fields)


def program(name: str, answer: Answer = Answer()) -> Program:
    return Program(name=name, title=name, command=("/bin/true", name), answer=answer)


def experiment(
    allocators: tuple[str, ...] = ("swift", "slim"), programs: tuple[str, ...] = ("one", "two"), **settings: object
) -> Experiment:
    """The baseline, its A/A control and the given allocators over the given programs."""
    baseline = allocator(BASELINE)
    return Experiment(
        title="a test",
        settings=Settings(**{"baseline": BASELINE, "seed": 7, **settings}),
        programs=tuple(program(p) for p in programs),
        treatments=(
            Treatment(BASELINE, baseline),
            *(Treatment(a, allocator(a)) for a in allocators),
            Treatment(BASELINE + CONTROL_SUFFIX, baseline, role="control"),
        ),
        argv=("heapyard", "compare"),
        cwd="/somewhere",
    )


@dataclass
class FakeLaunch:
    """Stands in for run_trial: wall time and memory from known ratios with log-normal noise, and faults on demand.

    `ratios`: wall time by allocator; `faults`: (workload, allocator) -> outcome fields given instead of success;
    `trips`: how many of the first counted launches trip a guard; `stop_after`: launches after which the user's Ctrl-C
    is simulated.
    """

    ratios: dict[str, float] = field(default_factory=dict)
    noise: float = 0.01
    seconds: float = 1.0
    faults: dict[tuple[str, str], dict[str, object]] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    trips: int = 0
    stop_after: int | None = None
    seed: int = 1
    calls: list[tuple[str, str]] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)
    running: bool = False

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def __call__(
        self,
        program: Program,
        treatment: Treatment,
        settings: Settings,
        *,
        pad: int,
        folder: Path,
        stop: threading.Event | None = None,
    ) -> TrialOutcome:
        assert not self.running, "two trials at once"
        assert folder.is_dir() and not any(folder.iterdir()), "the folder is not fresh"
        assert 0 <= pad < 4096
        (folder / "litter").write_text("left behind")
        name = treatment.allocator.name
        self.calls.append((program.name, treatment.label))
        self.timeouts.append(settings.timeout)
        if self.stop_after is not None and len(self.calls) > self.stop_after:
            assert stop is not None
            stop.set()
            return TrialOutcome(status="interrupted", reason="interrupted")
        fault = self.faults.get((program.name, name))
        if fault is not None:
            return TrialOutcome(**{"status": "failed", "failure": "exit", "reason": "it exited with 1", **fault})
        wall = self.seconds * self.ratios.get(name, 1.0) * math.exp(self._random.gauss(0, self.noise))
        tripped: tuple[str, ...] = ()
        if self.trips:
            self.trips -= 1
            tripped = ("steal 9 % above 2 %",)
        return TrialOutcome(
            status="ok",
            metrics={"wall": wall, "peak_rss": 1e7},
            series=[(0.0, 4096, -1), (wall, 8192, 8000)],
            provider=f"/lib/{name}.so",
            exit_code=0,
            command_line=f"LD_PRELOAD=/lib/{name}.so /bin/true",
            answer=hashlib.sha256(self.answers.get(name, "42").encode()).hexdigest(),
            guards={"steal": 0.0},
            tripped=tripped,
        )

# SPDX-License-Identifier: Apache-2.0
"""What `heapyard simulate` does: a program on a simulated machine, under each allocator and with each seed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.allocator import Allocator
from ..model.damage import DAMAGE, object_of
from ..model.errors import UsageError
from ..model.experiment import Settings, Treatment
from ..model.simulation import LONGEST, Simulated, Simulation, Simulations

if TYPE_CHECKING:
    from ..model.program import Program


@dataclass(frozen=True, slots=True)
class Course:
    """How far it is. `seconds`: real ones since it began; `left`: those to the end, None before the first run has ended."""

    done: int
    planned: int
    running: tuple[str, ...]
    seconds: float
    left: float | None


def program_to_simulate(argv: Sequence[str], allocators: Sequence[Allocator]) -> Program:
    """A mutator built here, by its name with its options, else a program as a shell finds it. UsageError for what cannot run on a
    simulated machine."""
    from ..catalog.mutators import mutator_command
    from ..catalog.program_command import program_from_command
    from ..catalog.simulatable import simulation_flaw

    if (mutator := mutator_command(argv)) is not None:
        return mutator
    injected = any(allocator.library for allocator in allocators)
    return program_from_command(argv, check="exit", flaw_of=partial(simulation_flaw, injected=injected))


def allocators_to_simulate(names: Sequence[str], libraries: dict[str, Path]) -> list[Allocator]:
    """Those named, those of one's own, or the usual ones that are installed; each loads, or UsageError."""
    from ..catalog.allocators import find_allocators, installed_allocators
    from ..execute.preflight import check
    from .assemble import spelled_out

    wanted = spelled_out(names) or ([] if libraries else [a.name for a in installed_allocators() if a.usual])
    found = find_allocators(list(dict.fromkeys([*wanted, *libraries])), libraries)
    check([Treatment(allocator.name, allocator) for allocator in found], Settings())
    return found


def simulate(
    program: Program,
    allocators: Sequence[Allocator],
    machine: Simulated,
    *,
    baseline: str,
    seeds: int = 1,
    jobs: int = 0,
    stop: threading.Event,
    watch: Callable[[Course], None] = lambda course: None,
) -> Simulations:
    """Run it with the seeds `machine.seed` and following, so many at a time as there are processors, unless `jobs` says.

    When `stop` is set what has ended is kept. `watch` is told at least twice a second. Time: hundreds of times that of the
    program for each run.
    """
    planned = [(allocator, machine.seed + i) for i in range(seeds) for allocator in allocators]
    found: dict[tuple[str, int], Simulation] = {}
    began = time.monotonic()
    jobs = jobs or len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(jobs) as pool:
        waiting, running = list(planned), dict[Future[Simulation | None], str]()
        while running or (waiting and not stop.is_set()):
            while waiting and len(running) < jobs and not stop.is_set():
                allocator, seed = waiting.pop(0)
                running[pool.submit(_one, program, allocator, replace(machine, seed=seed), stop)] = allocator.name
            ended, _ = wait(running, timeout=0.4, return_when=FIRST_COMPLETED)
            for future in ended:
                del running[future]
                if (one := future.result()) is not None:
                    found[one.allocator, one.seed] = one
            watch(_course(len(found), len(planned), tuple(running.values()), time.monotonic() - began))
    order = [(allocator.name, machine.seed + i) for allocator in allocators for i in range(seeds)]
    runs = tuple(found[key] for key in order if key in found)
    return Simulations(program.name, program.command, machine, baseline, runs, complete=len(runs) == len(order))


def _course(done: int, planned: int, running: tuple[str, ...], seconds: float) -> Course:
    return Course(done, planned, running, seconds, seconds / done * (planned - done) if done else None)


def _one(program: Program, allocator: Allocator, machine: Simulated, stop: threading.Event) -> Simulation | None:
    """One run; None if it was interrupted."""
    from ..execute.scratch import ScratchFolder
    from ..execute.simulator.responses import run_in
    from ..execute.trial import run_trial
    from ..profile.moving_lines import named

    settings = Settings(timeout=LONGEST, simulated=machine)
    with ScratchFolder() as folder:
        outcome = run_trial(program, Treatment(allocator.name, allocator), settings, pad=0, folder=folder, stop=stop)
        run = run_in(folder) if outcome.status == "ok" else None
    if outcome.status == "interrupted":
        return None
    if run is None:
        return Simulation(allocator.name, machine.seed, None, reason=outcome.reason)
    return Simulation(allocator.name, machine.seed, run, named(run.lines), _operations(outcome.result))


def _operations(result: bytes) -> float:
    """Of the heap in the measured phase, as a mutator counts them; 0 where nobody does."""
    try:
        return float(object_of(result)["counts"]["operations"])
    except DAMAGE:
        return 0.0


def baseline_among(allocators: Sequence[Allocator], wanted: str) -> str:
    """The name the others are compared with: the one asked for, else glibc, else the first. UsageError for one not among them."""
    names = [allocator.name for allocator in allocators]
    if wanted and wanted not in names:
        raise UsageError(f"the baseline {wanted} is not among the allocators: {', '.join(names)}")
    return wanted or ("glibc" if "glibc" in names else names[0])

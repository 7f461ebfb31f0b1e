# SPDX-License-Identifier: Apache-2.0
"""A simulated run as responses of a trial: the machine's counts, and what the mutator itself says, by the names of simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from ...model.metrics import METRICS, SIMULATED, SIMULATED_MEMORY, SIMULATED_PHASE, SIMULATED_TIME, as_simulated
from ...model.simulation import Run
from ..mutator_result import OwnResult
from .result import read_run

RUN_FILE = "simulation.json"  # in the lab's folder of a trial
MOST_LINES = 10  # kept with a trial
# What a mutator asks the kernel about its process is about QEMU there: its memory, faults and CPU time.
_OF_QEMU = ("cpu_time", "minor_faults", "major_faults", "fragmentation", "blowup", "peak_overhead")


def run_in(folder: Path) -> Run | None:
    """The run of the trial whose folder that is; None where the simulator left none."""
    return read_run(folder / "lab" / RUN_FILE)[0]


def responses_of(run: Run) -> dict[str, float]:
    """What the machine says of the run, by the names of model.metrics."""
    counts = {name.removesuffix("_seconds"): float(value) for name, value in asdict(run.totals).items()}
    found = {SIMULATED_TIME: run.seconds} | {SIMULATED + name: value for name, value in counts.items()}
    if run.measured_seconds is not None:
        found[SIMULATED_PHASE] = run.measured_seconds
    if run.memory is not None:
        found[SIMULATED_MEMORY] = float(run.memory)
    return found


def own_of(result: OwnResult) -> OwnResult:
    """What the mutator says by its clock, which tells simulated time; without what it says of its process."""
    kept = [m for m in result.defined if m.unit != "B" and m.name.removeprefix("own_") not in _OF_QEMU]
    defined = tuple(
        replace(m, name=as_simulated(m.name), title=f"simulated {m.title}") for m in kept if as_simulated(m.name) not in METRICS
    )
    names = {m.name for m in defined}
    metrics = {as_simulated(name): value for name, value in result.metrics.items() if as_simulated(name) in names}
    return OwnResult(metrics, defined, result.checksum, result.content)


def detail_of(run: Run) -> Mapping[str, object]:
    """What is kept of a run beyond its responses: on which machine it was, its speed, the lines that moved most."""
    told = {"machine": run.machine, "cores": run.cores, "seed": run.seed, "engine": run.engine, "threads": run.threads}
    return {
        "simulated": {**told, "accesses": run.accesses, "real_seconds": run.real_seconds},
        "lines": [asdict(line) for line in run.lines[:MOST_LINES]],
    }

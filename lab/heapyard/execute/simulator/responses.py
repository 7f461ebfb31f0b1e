# SPDX-License-Identifier: Apache-2.0
"""A simulated run as responses of a trial: the machine's counts, and what the mutator itself says, by the names of simulation."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from ...model.metrics import METRICS, SIMULATED, SIMULATED_MEMORY, SIMULATED_PHASE, SIMULATED_TIME, as_simulated
from ...model.simulation import Run
from ..mutator_result import OwnResult
from .result import read_run

RUN_FILE = "simulation.json"  # in the lab's folder of a trial
MOST_LINES = 10  # kept with a trial


def run_in(folder: Path) -> Run | None:
    """The run of the trial whose folder that is; None where the simulator left none."""
    return read_run(folder / "lab" / RUN_FILE)[0]


def left_out(run: Run) -> str:
    """Why the run does not speak of the whole program, in one sentence; "" if it does."""
    return "; ".join(run.warnings)


def responses_of(run: Run) -> dict[str, float]:
    """What the machine says of the run, by the names of model.metrics."""
    found = {SIMULATED_TIME: run.seconds, SIMULATED_MEMORY: float(run.memory)}
    found |= {SIMULATED + name.removesuffix("_seconds"): float(value) for name, value in asdict(run.counts).items()}
    if run.measured_seconds is not None:
        found[SIMULATED_PHASE] = run.measured_seconds
    return found


def own_of(result: OwnResult) -> OwnResult:
    """What the mutator says by clocks and of memory that are simulated, by names and titles that say so."""
    names = {m.name: as_simulated(m.name.removeprefix("own_")) for m in result.defined}
    names = {old: new for old, new in names.items() if new not in METRICS}  # what the machine counts, it counts itself
    defined = tuple(replace(m, name=names[m.name], title=f"simulated {m.title}") for m in result.defined if m.name in names)
    metrics = {names[name]: value for name, value in result.metrics.items() if name in names}
    return OwnResult(metrics, defined, result.checksum, result.content)


def detail_of(run: Run) -> dict[str, object]:
    """What is kept of a run beyond its responses: on which machine it was, its speed, the lines that moved most."""
    told = {"machine": run.machine, "cores": run.cores, "seed": run.seed, "engine": run.engine, "threads": run.threads}
    return {
        "simulated": {**told, "accesses": run.accesses, "real_seconds": run.real_seconds},
        "lines": [asdict(line) for line in run.lines[:MOST_LINES]],
    }

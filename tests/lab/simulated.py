# SPDX-License-Identifier: Apache-2.0
"""Experiments that never ran: random responses with known ratios, as a Record and its Analysis through the real statistics."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

from yard import BASELINE, experiment

from heapyard.model.analysis import Analysis
from heapyard.model.claim import Claim
from heapyard.model.experiment import CONTROL_SUFFIX
from heapyard.model.figure import Figure
from heapyard.model.observations import Failure, Observation, Observations
from heapyard.model.record import Event, Record, TrialRecord
from heapyard.stats.analyse import analyse

NAMES = (
    "jemalloc",
    "mimalloc",
    "tcmalloc",
    "snmalloc",
    "tbbmalloc",
    "scudo",
    "rpmalloc",
    "hardened_malloc",
    "mimalloc3",
    "google-tcmalloc",
    "jemalloc-5.3.1",
    "hardened_malloc-light",
    "glibc:tcache=0",
    "mine",
)


def simulate(
    allocators: int = 6,
    programs: int = 8,
    blocks: int = 8,
    *,
    noise: float = 0.01,
    seed: int = 1,
    failing: int = 0,
    ratios: dict[str, tuple[float, float]] | None = None,
    hostile: str = "",
) -> tuple[Analysis, Record]:
    """`ratios`: allocator -> (time, memory) against the baseline. The last `failing` allocators fail on the first program."""
    dice = random.Random(seed)
    names = NAMES[:allocators]
    workloads = tuple(f"program{i}{hostile}" for i in range(programs))
    made = experiment(names, workloads)
    known = ratios if ratios is not None else {n: (dice.uniform(0.85, 1.15), dice.uniform(0.8, 1.3)) for n in names}
    labels = [BASELINE, *names, BASELINE + CONTROL_SUFFIX]
    broken = set(names[allocators - failing :]) if failing else set()
    rows: list[Observation] = []
    trials: list[TrialRecord] = []
    for block in range(blocks * programs):
        workload = workloads[block % programs]
        for position, label in enumerate(dice.sample(labels, len(labels))):
            number, failed = len(trials) + 1, label in broken and workload == workloads[0]
            time, memory = known.get(label, (1.0, 1.0))
            metrics = (
                {}
                if failed
                else {
                    "wall": (0.3 + block % programs / 5) * time * math.exp(dice.gauss(0, noise)),
                    "peak_rss": (40 << 20) * memory * math.exp(dice.gauss(0, noise / 4)),
                    "minor_faults": float(dice.randint(900, 1000)),
                    "mean_rss": (30 << 20) * memory,
                    "major_faults": 0.0,
                }
            )
            trials.append(
                TrialRecord(
                    id=number,
                    block=block,
                    attempt=0,
                    stage="main",
                    workload=workload,
                    treatment=label,
                    position=position,
                    status="failed" if failed else "ok",
                    counted=not failed,
                    started=float(number),
                    ended=number + 0.5,
                    metrics=metrics,
                    command_line=f"LD_PRELOAD=/lib/{label}.so prog {workload}",
                    series="x" if metrics else "",
                    failure="signal" if failed else "",
                    reason=f"{workload} was killed by signal 11" if failed else "",
                )
            )
            rows += [
                Observation(workload, label, block, m, v, number, position, float(number)) for m, v in metrics.items()
            ]
    failures = tuple(
        Failure(workloads[0], n, blocks, blocks, "signal", f"{workloads[0]} was killed by signal 11 (SIGSEGV)")
        for n in names
        if n in broken
    )
    observations = Observations(
        workloads, (BASELINE, *names), BASELINE, BASELINE + CONTROL_SUFFIX, tuple(rows), failures, made.settings
    )
    record = Record(
        id="261120-1200-test",
        path=Path("/somewhere/261120-1200-test"),
        status="finished",
        created="2026-11-20T12:00:00+00:00",
        version="0.1.0",
        experiment=made,
        environment={"kernel": "6.1", "cpu": {"model": f"Some CPU {hostile}"}, "cpus": [0, 1]},
        trials=tuple(trials),
        events=(Event(1.5, "planned", f"so many blocks {hostile}"),),
        observations=observations,
    )
    return analyse(observations), record


def as_study(record: Record, text: str = "") -> tuple[Analysis, Record]:
    """The same trials as if program i were a mutator on 2^i threads, with figures and claims of every kind; `text` is in
    all that a person wrote."""
    seen = record.observations
    per_round = len(seen.workloads)
    figures = (
        Figure(f"Time{text}", "wall", "threads", f"a paper, Figure 1{text}", f"threads{text}", log_x=True),
        Figure(f"Memory{text}", "peak_rss", "threads", y_title=f"memory{text}"),
        Figure(f"Relative{text}", "wall", "threads", relative=True),
        Figure(f"By name{text}", "wall", "program"),
        Figure(f"Nothing{text}", "moon", "threads"),
    )
    claims = (
        Claim(f"jemalloc is faster{text}", "faster_than", f"a paper{text}", "wall", ("jemalloc", "mimalloc")),
        Claim(f"alike{text}", "within", "a paper", "peak_rss", ("jemalloc",), bounds=(0.5, 2.0)),
        Claim(f"time rises{text}", "monotone", "a paper", "wall", over="threads"),
        Claim(f"llalloc leads{text}", "ranks", "a paper", "wall", (f"llalloc{text}",)),
        Claim(f"for many{text}", "flat_in", "a paper", "wall", over="threads", bounds=(0.5, 2.0), processors=64),
    )
    observations = replace(
        seen,
        rows=tuple(replace(row, round=row.block // per_round) for row in seen.rows),
        levels={w: {"program": w, "threads": str(2**i)} for i, w in enumerate(seen.workloads)},
        figures=figures,
        claims=claims,
        processors=2,
    )
    return analyse(observations), replace(record, observations=observations)


def curve(name: str) -> list[tuple[float, int, int]]:
    """A made-up memory curve for any trial."""
    return [(i / 100, (10 + i) << 20, -1) for i in range(40)] if name else []

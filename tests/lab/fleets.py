# SPDX-License-Identifier: Apache-2.0
"""Fleets that never were: the blocks of a simulated experiment on machines with speeds and likes of their own."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace

from simulated import simulate

from heapyard.model.analysis import Analysis
from heapyard.model.machine_facts import facts_of
from heapyard.model.machines import Machines
from heapyard.model.observations import Observation, Observations
from heapyard.model.record import Record
from heapyard.stats.analyse import analyse
from heapyard.stats.machines.found import machines_of
from heapyard.stats.overall import common_set
from heapyard.stats.tables import tables

NODES = ("node1", "node2", "node3")
PLAIN = {
    "cpu": {"model": "Some CPU"}, "cpus_allowed": [0, 1, 2, 3], "kernel": "6.1.0", "libc": "glibc 2.36",
    "huge_pages_transparent": "always [madvise] never", "memory_kib": {"MemTotal": 16 << 20}, "tunables": {},
}  # fmt: skip
NO_TCACHE = PLAIN | {"tunables": {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}}
HALF = PLAIN | {"cpu_quota": 0.5}

Effects = Mapping[tuple[str, str], float]  # (machine, treatment) -> factor on the time


def on_fleet(
    record: Record, *, nodes: tuple[str, ...] = NODES, effects: Effects | None = None, speeds: Mapping[str, float] | None = None,
    noisy: Mapping[str, float] | None = None, memory: Effects | None = None,
    snapshots: Mapping[str, Mapping[str, object]] | None = None, seed: int = 1,
) -> Record:  # fmt: skip
    """The record as if its rounds had gone to `nodes` by turns. `speeds`: factors on every time of a machine; `noisy`: further
    noise of its single trials; `memory`: factors on the peak; `snapshots`: of machines that are not PLAIN."""
    dice = random.Random(seed)
    per_round = len(record.observations.workloads)
    node_of = {t.block: nodes[t.block // per_round % len(nodes)] for t in record.trials}
    factor = {
        t.id: (effects or {}).get((node_of[t.block], t.treatment), 1.0)
        * (speeds or {}).get(node_of[t.block], 1.0)
        * math.exp(dice.gauss(0, (noisy or {}).get(node_of[t.block], 0.0)))
        for t in record.trials
    }
    found: dict[str, dict[str, object]] = {n: dict((snapshots or {}).get(n, PLAIN)) for n in nodes}

    def held(o: Observation) -> float:
        return (memory or {}).get((node_of[o.block], o.treatment), 1.0) if o.metric == "peak_rss" else 1.0

    rows = tuple(
        replace(o, node=node_of[o.block], value=o.value * (factor[o.trial] if o.metric == "wall" else held(o)))
        for o in record.observations.rows
    )
    trials = tuple(
        replace(t, node=node_of[t.block], metrics=t.metrics | ({"wall": t.metrics["wall"] * factor[t.id]} if t.metrics else {}))
        for t in record.trials
    )
    seen = replace(record.observations, rows=rows, machines={n: facts_of(s) for n, s in found.items()})
    return replace(record, observations=seen, trials=trials, nodes=found)


def fleet(
    allocators: int = 5, programs: int = 4, blocks: int = 12, *, seed: int = 5, noise: float = 0.012,
    ratios: dict[str, tuple[float, float]] | None = None, **of_machines: object,
) -> tuple[Analysis, Record]:  # fmt: skip
    record = on_fleet(simulate(allocators, programs, blocks, seed=seed, noise=noise, ratios=ratios)[1], **of_machines)
    return analyse(record.observations), record


def machines_in(observations: Observations) -> Machines:
    """What an analysis says of the machines, without the rest of it."""
    made, settings = tables(observations), observations.settings
    leading = {m: [t for t in made if t.metric == m] for m in (settings.time_metric, settings.memory_metric)}
    labels = tuple(t for t in observations.treatments if t != observations.control)
    found = machines_of(
        observations, leading, {m: common_set(t, labels, observations.baseline) for m, t in leading.items()}, checks=1
    )
    assert found is not None
    return found

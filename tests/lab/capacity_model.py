# SPDX-License-Identifier: Apache-2.0
"""Servers on paper whose capacity is known, and a journal in memory: a search takes no time but that of its arithmetic."""

from __future__ import annotations

import math
import random
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from yard import allocator

from heapyard.model.experiment import CONTROL_SUFFIX, Block, BlockStatus, Experiment, Settings, Treatment, TrialOutcome
from heapyard.model.limits import Limit
from heapyard.model.program import Program, Server
from heapyard.model.record import TrialRecord

P99 = Limit("latency_p99", 0.005, "p99=5ms")
FAILED = Limit("failed", 0.01, "failed=1%", asked=False)

# (rate, capacity at this moment) -> p99 in seconds
Curve = Callable[[float, float], float]


def queue(use: float) -> Curve:
    """M/M/1: the delay of requests is exponential with rate mu - lambda, so that its p99 is ln(100) / (mu - lambda). At the
    capacity a share `use` of mu is used."""

    def p99(rate: float, capacity: float) -> float:
        mu = capacity / use
        return P99.bound * (mu - capacity) / max(mu - rate, 1e-3 * mu)

    return p99


def step(rate: float, capacity: float) -> float:
    """A server that does well until it drowns: no trial shows a latency near the limit."""
    return P99.bound * (0.1 if rate <= capacity else 50.0)


@dataclass
class Waits:
    """Stands in for run_trial. `capacity` by allocator; from trial to trial it scatters by `scatter` on the log scale, and the
    p99 that is measured by `noise`. A share `lapse` of the trials is slow whatever the rate. `drift`: per trial, on the log
    scale, for every allocator alike. `fault`: outcome fields given instead, by allocator."""

    capacity: dict[str, float]
    curve: Curve = field(default_factory=lambda: queue(0.8))
    scatter: float = 0.03
    noise: float = 0.05
    lapse: float = 0.0
    drift: float = 0.0
    seed: int = 1
    fault: dict[str, dict[str, object]] = field(default_factory=dict)
    sends: Callable[[float], float] = lambda rate: rate
    stop_after: int | None = None
    rates: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def __call__(self, program: Program, treatment: Treatment, settings: Settings, *, pad: int, folder: Path,
                 stop: threading.Event | None = None) -> TrialOutcome:
        name, draw = treatment.allocator.name, self._random
        assert program.server is not None
        rate = float(re.search(r"-R(\d+)", program.server.client[-1])[1])  # type: ignore[index]
        self.rates.append((treatment.label, rate))
        if self.stop_after is not None and len(self.rates) > self.stop_after:
            assert stop is not None
            stop.set()
            return TrialOutcome(status="interrupted", reason="interrupted")
        if name in self.fault:
            return TrialOutcome(**{"status": "failed", "failure": "server", "reason": "the server ended", **self.fault[name]})
        now = self.capacity[name] * math.exp(draw.gauss(0, self.scatter) + self.drift * len(self.rates))
        p99 = self.curve(rate, now) * math.exp(draw.gauss(0, self.noise))
        if draw.random() < self.lapse:
            p99 *= 20
        sent = self.sends(rate)
        return TrialOutcome(status="ok", metrics={
            "wall": 10.0, "latency_p99": p99, "request_rate": sent, "requests": 10 * sent, "failed_requests": 0.0,
            "charged": 1e7 + rate, "generator_cpu": 1.0, "load_cpu": 5.0,
        })  # fmt: skip


def search_for(names: Sequence[str] = ("swift",), **settings: object) -> Experiment:
    """glibc, its A/A control and others, and a load that says its rate as wrk2 does."""
    server = Server(client=("/bin/sh", "-c", "wrk2 -R{rate} http://127.0.0.1:{port}/"), generator="wrk2", paced=True)
    base = allocator("glibc")
    given: dict[str, object] = {
        "limits": (P99, FAILED), "start_rate": 100.0, "precision": 0.03, "seed": 7, "margin_time": 0.05, "budget": None,
        "max_blocks": 30,
    }  # fmt: skip
    return Experiment(
        title="a search",
        settings=Settings(**{**given, **settings}),  # type: ignore[arg-type]
        programs=(Program(name="server", title="server", command=("/bin/true",), server=server),),
        treatments=(Treatment("glibc", base), *(Treatment(name, allocator(name)) for name in names),
                    Treatment("glibc" + CONTROL_SUFFIX, base, role="control")),
        argv=("heapyard", "capacity"),
    )


class MemoryJournal:
    """A journal that nothing survives."""

    def __init__(self, experiment: Experiment):
        self.experiment = experiment
        self.events: list[tuple[str, str]] = []
        self._plan: dict[int, tuple[Block, BlockStatus]] = {}
        self._trials: list[TrialRecord] = []

    def add_blocks(self, blocks: Sequence[Block]) -> None:
        self._plan.update((block.index, (block, "planned")) for block in blocks)

    def plan(self) -> list[tuple[Block, BlockStatus]]:
        return list(self._plan.values())

    def trials(self) -> list[TrialRecord]:
        return self._trials

    def start_trial(self, block: Block, position: int) -> int:
        number = len(self._trials)
        self._trials.append(TrialRecord(number, block.index, 0, block.stage, block.workload, block.order[position], position,
                                        "started", False, number * 10.0, number * 10.0, {}, ""))
        return number

    def end_trial(self, trial: int, outcome: TrialOutcome) -> None:
        self._trials[trial] = replace(
            self._trials[trial], status=outcome.status, counted=outcome.status == "ok", ended=trial * 10.0 + 10.0,
            metrics=outcome.metrics, failure=outcome.failure, reason=outcome.reason, tripped=outcome.tripped,
        )  # fmt: skip

    def end_block(self, block: Block, status: BlockStatus) -> None:
        self._plan[block.index] = (block, status)

    def event(self, kind: str, text: str) -> None:
        self.events.append((kind, text))

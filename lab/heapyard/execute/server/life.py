# SPDX-License-Identifier: Apache-2.0
"""The life of a server in a trial: ready, warm, under load, left alone, stopped."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...model.experiment import Settings
from ...model.metrics import Metric
from ...model.program import Program
from ..launcher import Running
from ..trial_environment import Scene
from .load import Responses, Run, responses_of, run_at_once
from .ready import wait_until_ready
from .work import Work, first_child, resident_below, work_below

STOP_SECONDS = 20.0  # a server that has not ended so long after it was asked to will not


@dataclass(frozen=True, slots=True)
class Client:
    """What became of the load: `wall` seconds of the first one, `cpu` of all, and a sentence in `failed` if something went wrong.

    `died`: the server ended of itself. `loaded`: when the load began and ended, in seconds since the server was started;
    `left`: bytes resident when it was asked to end.
    """

    wall: float = 0.0
    cpu: float = 0.0
    failed: str = ""
    died: bool = False
    loaded: tuple[float, float] = (0.0, 0.0)
    left: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    defined: tuple[Metric, ...] = ()

    def of_memory(self, samples: Sequence[Sequence[float]]) -> tuple[dict[str, float], tuple[Metric, ...]]:
        """The mean of (seconds, RSS, ...) samples over the load's second half, and what was left. A machine at work may have
        taken no sample after the load, so that was looked at by itself."""
        begin, end = self.loaded
        steady = [s[1] for s in samples if (begin + end) / 2 <= s[0] <= end]
        metrics = {"steady_rss": sum(steady) / len(steady)} if steady else {}
        return metrics | ({"left_rss": float(self.left)} if self.left else {}), _MEMORY


_MEMORY = (
    Metric("steady_rss", "steady RSS", "B", margin="memory", about="mean of the tree's RSS in the second half of the load"),
    Metric("left_rss", "RSS left", "B", margin="memory", about="the tree's RSS after the load, before the server is stopped"),
)
_WORK = (
    Metric("cpu_per_request", "CPU time per request", "s", about="of the server and its processes, while the load ran"),
    Metric("load_cpu", "CPU time under load", "s", about="of the server and its processes, while the load ran"),
    Metric("faults_per_request", "faults per request", "1", about="minor ones of the server's processes, while the load ran"),
    Metric("load_faults", "minor faults under load", "1", scale="count"),
    Metric("generator_cpu", "CPU time of the load", "s", "neutral", "count", about="of the load generator, while it ran"),
)


def serve(program: Program, server: Running, scene: Scene, settings: Settings, stop: threading.Event | None) -> Client:
    """Drives the started `server` through its life; on return it has ended or, if `failed`, is the caller's to end."""
    plan = program.server
    assert plan is not None
    if why := wait_until_ready(program, server, scene, stop):
        return Client(failed=f"the server {why}", died=server.wait(0))
    if plan.warm_up:
        (warm,) = run_at_once("warm_up", [plan.warm_up], program, scene, settings, settings.timeout, stop, server)
        if warm.failed or server.wait(0):
            return _failed(server, "warm-up", warm.failed, "was warmed up")
    before, begin = _work(server), time.monotonic() - server.started
    loads = run_at_once("load", [plan.client, *plan.more_clients], program, scene, settings, settings.timeout, stop, server)
    did, end = _work(server).since(before), time.monotonic() - server.started
    failed = next((load.failed for load in loads if load.failed), "")
    if failed or server.wait(0):
        return _failed(server, "load", failed, "was under load")
    if plan.client_answer and not re.search(plan.client_answer, loads[0].output):
        return Client(failed=f"the load's answer does not match /{plan.client_answer}/")
    responses, why = responses_of(program, loads, settings.time_metric)
    if why:
        return Client(failed=f"the load {why}")
    client = _answer(loads, responses, did, (begin, end))
    if plan.settle and server.wait(plan.settle, stop):
        return _failed(server, "", "", "was left alone")
    client = replace(client, left=resident_below(server.process.pid))
    if why := _end(program, server, scene, settings, stop):
        return Client(failed=why)
    return client


def _answer(loads: Sequence[Run], responses: Responses, did: Work, loaded: tuple[float, float]) -> Client:
    metrics = dict(responses.metrics) | {"load_faults": float(did.faults), "generator_cpu": sum(load.cpu for load in loads)}
    if responses.requests:
        metrics["faults_per_request"] = did.faults / responses.requests
    if did.cpu > 0:
        metrics["load_cpu"] = did.cpu
        if responses.requests:
            metrics["cpu_per_request"] = did.cpu / responses.requests
    defined = (*responses.defined, *(metric for metric in _WORK if metric.name in metrics))
    return Client(loads[0].wall, metrics["generator_cpu"], loaded=loaded, metrics=metrics, defined=defined)


def _work(server: Running) -> Work:
    return work_below(server.process.pid, server.launch.group)


def _failed(server: Running, helper: str, why: str, when: str) -> Client:
    if server.wait(0):
        return Client(failed=f"the server ended while it {when}", died=True)
    return Client(failed=f"the {helper} {why}")


def _end(program: Program, server: Running, scene: Scene, settings: Settings, stop: threading.Event | None) -> str:
    """Asks it to end, and waits; "" or what went wrong."""
    plan = program.server
    assert plan is not None
    if plan.stop:
        (asked,) = run_at_once("stop", [plan.stop], program, scene, settings, STOP_SECONDS, stop)
        if asked.failed:
            return f"the stop command {asked.failed}"
        told = "its stop command"
    else:
        told = plan.stop_signal
        if pid := first_child(server.process.pid):
            server.signal(pid, signal.Signals[plan.stop_signal])
    if not server.wait(STOP_SECONDS, stop):
        return f"the server still ran {STOP_SECONDS:g} s after {told}"
    return ""


def ended_as_asked(program: Program, code: int | None, signal_: int | None) -> bool:
    """Did a server that was sent a signal end of it, or in peace? Some end with 128 and its number, as shells say it."""
    plan = program.server
    if plan is None or plan.stop:
        return False
    number = signal.Signals[plan.stop_signal]
    return signal_ == number or code in (0, program.answer.exit_code, 128 + number)

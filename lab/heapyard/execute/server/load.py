# SPDX-License-Identifier: Apache-2.0
"""What a load gives: its own times, and the responses read from what it printed."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from ...catalog.load_generators import GENERATORS, NotUnderstood, Served, read_output
from ...model.experiment import Settings
from ...model.metrics import Metric, own_metric
from ...model.program import Program
from ..launcher import WATCH, Launch, Running
from ..trial_environment import Scene, plain_environment
from .started import Started


@dataclass(frozen=True, slots=True)
class Run:
    """One helper command at its end: its times in seconds, what it printed, or in `failed` what went wrong."""

    wall: float = 0.0
    cpu: float = 0.0
    output: str = ""
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Responses:
    """`metrics` by name; `defined` describes them. `requests` is 0 where nobody counted them."""

    metrics: dict[str, float] = field(default_factory=dict)
    defined: tuple[Metric, ...] = ()
    requests: float = 0.0


def run_at_once(
    name: str, commands: Sequence[Sequence[str]], program: Program, scene: Scene, settings: Settings, seconds: float,
    stop: threading.Event | None, server: Started | None = None,
) -> list[Run]:
    """All of them, each to its end or for `seconds`. `name`: of their files in the trial's folder. When `server` ends they do."""
    with ExitStack() as ending:
        running = [ending.enter_context(Running(launch)) for launch in helpers(name, commands, program, scene, seconds)]
        for one in running:
            while not one.wait(WATCH, stop):
                if server is not None and server.wait(0):
                    one.end()
    return [run_of(one, seconds) for one in running]


def helpers(name: str, commands: Sequence[Sequence[str]], program: Program, scene: Scene, seconds: float) -> list[Launch]:
    """The launches of helper commands, which see nothing of the library. `seconds`: the longest for each, 0 for no limit."""
    return [
        Launch(
            command=[scene.fill(word, program) for word in command],
            env=plain_environment(program, scene),
            json=scene.lab / f"{name}{number}.json",
            stdout=scene.lab / f"{name}{number}.stdout",
            stderr=scene.lab / f"{name}{number}.stderr",
            cwd=program.cwd or scene.dir,
            timeout=seconds,
            sample=False,
        )
        for number, command in enumerate(commands)
    ]


def run_of(running: Running, seconds: float) -> Run:
    """What became of a helper, which has ended or is waited for."""
    found, complaint = running.result()
    output = running.launch.stdout.read_text(errors="replace") if running.launch.stdout.exists() else ""
    if found and found["status"] == "exited" and found.get("exit_code") == 0:
        return Run(found["wall"], found["user"] + found["sys"], output)
    why = complaint or {"timeout": f"did not end within {seconds:g} s", "cannot start": "cannot be started"}.get(
        found.get("status", ""), f"ended with status {found.get('exit_code', found.get('signal'))}"
    )
    errors = running.launch.stderr.read_text(errors="replace") if running.launch.stderr.exists() else ""
    last = next((line.strip() for line in reversed(f"{output}\n{errors}".splitlines()) if line.strip()), "")
    return Run(output=output, failed=f"{why}; it said: {last[:200]}" if last else why)


def responses_of(program: Program, loads: Sequence[Run], lead: str = "") -> tuple[Responses, str]:
    """What the loads say of the server, or what is missing in their output, to follow the words "the load".

    `lead`: the response that the verdict speaks of, if there is one.
    """
    plan = program.server
    assert plan is not None
    metrics: dict[str, float] = {}
    defined: list[Metric] = []
    requests = 0.0
    if plan.generator:
        try:
            served = [read_output(GENERATORS[plan.generator], load.output, load.wall) for load in loads]
        except NotUnderstood as error:
            return Responses(), f"has an output that {plan.generator} does not write: there is no sign of {error}"
        metrics, defined = _of_all(served)
        requests = metrics["requests"]
        if requests <= metrics["failed_requests"]:
            failed = f"{requests:,.0f} requests and {metrics['failed_requests']:,.0f} that failed"
            return Responses(), f"had hardly an answer but errors: {plan.generator} counts {failed}"
        if lead.startswith("latency_") and lead not in metrics:
            told = " and ".join(name for name in metrics if name.startswith("latency_")) or "no latency at all"
            option = GENERATORS[plan.generator].percentiles
            how = f"; {plan.generator} prints further ones with {option}" if option else ""
            return Responses(), f"tells no {lead} above zero, of which the verdict is to speak, but {told}{how}"
    text = "\n".join(load.output for load in loads)
    for reading in plan.readings:
        found = re.findall(reading.pattern, text, re.MULTILINE)
        try:
            metrics[reading.name] = float(found[-1])
        except IndexError:
            return Responses(), f"prints nothing that matches /{reading.pattern}/, which --metric {reading.name} reads"
        except ValueError:
            return Responses(), f"prints '{found[-1][:40]}' where --metric {reading.name} reads a number"
        defined.append(own_metric(reading.name, "1", reading.direction))
    return Responses(metrics, tuple(defined), requests), ""


def _of_all(served: Sequence[Served]) -> tuple[dict[str, float], list[Metric]]:
    """Requests are added up; a latency is that of the load which saw the worst."""
    rate = sum(one.requests / one.seconds for one in served)
    metrics = {"time_per_request": 1 / rate, "request_rate": rate, "requests": sum(one.requests for one in served),
               "failed_requests": sum(one.failed for one in served)}
    defined = [
        Metric("time_per_request", "request time", "s", about="seconds of load for each request that was answered"),
        Metric("request_rate", "requests", "1/s", "higher"),
        Metric("requests", "requests in all", "1", "neutral", "count"),
        Metric("failed_requests", "failed requests", "1", scale="count"),
    ]
    if all(one.sent for one in served):
        metrics["sent_rate"] = sum(one.sent for one in served)
        defined.append(Metric("sent_rate", "requests sent", "1/s", "neutral", about="as the load generator counts them"))
    for name in dict.fromkeys(name for one in served for name in one.latencies):
        worst = max(one.latencies.get(name, 0.0) for one in served)
        if worst > 0:
            metrics[f"latency_{name}"] = worst
            defined.append(Metric(f"latency_{name}", f"{name} latency", "s", about="as the load generator tells it"))
    return metrics, defined

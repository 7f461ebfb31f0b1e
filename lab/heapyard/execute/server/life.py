# SPDX-License-Identifier: Apache-2.0
"""A program that serves: waiting until it is ready, running its client without the library, and stopping it."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..model.experiment import Settings
from ..model.program import Program
from .launcher import Launch, Running
from .trial_environment import Scene, plain_environment

STOP_SECONDS = 20.0  # a server that has not ended so long after its stop command will not


@dataclass(frozen=True, slots=True)
class Client:
    """What became of the client: `wall` and `cpu` seconds, and one sentence in `failed` when something went wrong."""

    wall: float = 0.0
    cpu: float = 0.0
    failed: str = ""


def serve(program: Program, server: Running, scene: Scene, settings: Settings, stop: threading.Event | None) -> Client:
    """Drives the started `server` through its life; on return it has ended or, if `failed`, is the caller's to end."""
    plan = program.server
    assert plan is not None
    if not _ready(scene.port, server, plan.ready_seconds, stop):
        return Client(failed=f"the server accepted no connection within {plan.ready_seconds:g} s")
    client, output, why = _call("client", plan.client, program, scene, settings, settings.timeout, stop)
    if why:
        return Client(failed=f"the client {why}")
    if plan.client_answer and not re.search(plan.client_answer, output):
        return Client(failed=f"the client's answer does not match /{plan.client_answer}/")
    _, _, why = _call("stop", plan.stop, program, scene, settings, STOP_SECONDS, stop)
    if why:
        return Client(failed=f"the stop command {why}")
    if not server.wait(STOP_SECONDS, stop):
        return Client(failed=f"the server still ran {STOP_SECONDS:g} s after its stop command")
    return client


def _ready(port: int, server: Running, seconds: float, stop: threading.Event | None) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not (stop and stop.is_set()):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            if server.wait(0.005):
                return False
    return False


def _call(
    name: str,
    command: Sequence[str],
    program: Program,
    scene: Scene,
    settings: Settings,
    seconds: float,
    stop: threading.Event | None,
) -> tuple[Client, str, str]:
    """One helper command to its end: (times, its output, what went wrong)."""
    out: Path = scene.lab / f"{name}.stdout"
    launch = Launch(
        command=[scene.fill(word, program) for word in command],
        env=plain_environment(program, scene),
        json=scene.lab / f"{name}.json",
        stdout=out,
        stderr=scene.lab / f"{name}.stderr",
        cwd=scene.dir,
        timeout=seconds,
        sample=False,
    )
    with Running(launch) as running:
        running.wait(stop=stop)
    found, complaint = running.result()
    if not found or found["status"] != "exited" or found.get("exit_code") != 0:
        why = complaint or {"timeout": f"did not end within {seconds:g} s", "cannot start": "cannot be started"}.get(
            found.get("status", ""), f"ended with status {found.get('exit_code', found.get('signal'))}"
        )
        return Client(), "", why
    return Client(found["wall"], found["user"] + found["sys"]), out.read_text(errors="replace"), ""

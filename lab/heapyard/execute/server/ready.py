# SPDX-License-Identifier: Apache-2.0
"""Has a server become ready? Its port, a line it writes, or a command of the user's tells."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ...model.program import Program
from ..trial_environment import Scene, plain_environment
from .started import Started

POLL = 0.005  # seconds between looks at a port, or at what the server wrote
POLL_COMMAND = 0.1  # seconds between runs of a command, which take some time themselves


def wait_until_ready(program: Program, server: Started, scene: Scene, stop: threading.Event | None) -> str:
    """"" once it is ready, else what is wrong, to follow the words "the server"."""
    plan = program.server
    assert plan is not None
    if plan.ready_line:
        line = re.compile(plan.ready_line)
        said = f"wrote no line that matches /{plan.ready_line}/"
        ready, pause = _said(line, (server.launch.stdout, server.launch.stderr)), POLL
    elif plan.ready:
        said = f"was not ready, as '{' '.join(plan.ready)}' tells,"
        ready, pause = _command_succeeds(program, scene), POLL_COMMAND
    else:
        said = f"accepted no connection on port {scene.port}"
        ready, pause = (lambda: _accepts(scene.port)), POLL
    until = time.monotonic() + plan.ready_seconds
    while time.monotonic() < until and not (stop and stop.is_set()):
        if ready():
            return ""
        if server.wait(pause):
            return "ended before it was ready"
    return f"{said} within {plan.ready_seconds:g} s"


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _said(line: re.Pattern[str], paths: tuple[Path, ...]) -> Callable[[], bool]:
    """Reads on where it ended the last time; a line counts once it is whole."""
    seen = dict.fromkeys(paths, 0)

    def look() -> bool:
        for path in paths:
            try:
                with path.open("rb") as file:
                    file.seek(seen[path])
                    text = file.read()
            except OSError:
                continue  # not made yet
            whole = text[: text.rfind(b"\n") + 1]
            seen[path] += len(whole)
            if any(line.search(one) for one in whole.decode(errors="replace").splitlines()):
                return True
        return False

    return look


def _command_succeeds(program: Program, scene: Scene) -> Callable[[], bool]:
    plan = program.server
    assert plan is not None
    words, env = [scene.fill(word, program) for word in plan.ready], plain_environment(program, scene)

    def run() -> bool:
        try:
            done = subprocess.run(
                words, env=env, cwd=program.cwd or scene.dir,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=plan.ready_seconds, check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    return run

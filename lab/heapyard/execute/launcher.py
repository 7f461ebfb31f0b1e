# SPDX-License-Identifier: Apache-2.0
"""Calling the native launcher: one program, its process tree, one JSON object back (lab/native/trial)."""

from __future__ import annotations

import os
import select
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..model import places
from ..model.damage import DAMAGE, in_words, object_of
from ..model.errors import SetupError
from .orphans import adopt_orphans, end_orphans

WATCH = 0.1  # seconds between looks at the stop event; a trial's own end is waited for in the kernel
PATIENCE = 10.0  # seconds the launcher is given to end its tree before it is killed itself


@dataclass(frozen=True, slots=True)
class Launch:
    """What one call of the launcher needs; every path absolute. `json`, `stdout` and `stderr` are written."""

    command: Sequence[str]
    env: Mapping[str, str]
    json: Path
    stdout: Path
    stderr: Path
    cwd: Path
    stdin: Path | None = None
    argv0: str = ""
    timeout: float = 0.0
    interval: float = 0.01
    sample: bool = True
    library: Path | None = None
    cpus: tuple[int, ...] = ()
    huge_pages: bool = True
    group: Path | None = None  # the control group it runs in: made, and empty
    turns: socket.socket | None = None  # through which its slices are given; closed here once the launcher has it
    extra: tuple[str, ...] = field(default=())

    def argv(self) -> list[str]:
        words = [
            str(launcher()),
            "--json",
            str(self.json),
            "--stdout",
            str(self.stdout),
            "--stderr",
            str(self.stderr),
            "--cwd",
            str(self.cwd),
            "--timeout",
            repr(self.timeout),
            "--interval",
            repr(self.interval),
            "--parent",
            str(os.getpid()),
        ]
        words += ["--stdin", str(self.stdin)] if self.stdin else []
        words += ["--argv0", self.argv0] if self.argv0 else []
        words += ["--library", str(self.library)] if self.library else []
        words += ["--cpus", ",".join(map(str, self.cpus))] if self.cpus else []
        words += ["--group", str(self.group)] if self.group else []
        words += ["--turns", str(self.turns.fileno())] if self.turns else []
        words += [] if self.sample else ["--no-sampling"]
        words += [] if self.huge_pages else ["--no-huge-pages"]
        return [*words, *self.extra, "--", *self.command]


def launcher() -> Path:
    """The native launcher; SetupError when it is not built."""
    path = places.native("trial")
    if not path.exists():
        raise SetupError(f"the native part {path} is missing", remedy=places.repair())
    return path


class Running:
    """A launcher at work. Always ended: by itself, by `end`, or with us (the kernel tells it when its parent dies)."""

    at_work: ClassVar[set[int]] = set()

    def __init__(self, launch: Launch):
        self.launch = launch
        adopt_orphans()
        self.started = time.monotonic()  # a few milliseconds before the program itself
        # A session of its own: Ctrl-C reaches the lab, which decides. Its errors are one sentence, if any.
        self.process = subprocess.Popen(
            launch.argv(),
            env=dict(launch.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=[launch.turns.fileno()] if launch.turns else (),
        )
        if launch.turns:
            launch.turns.close()
        self.at_work.add(self.process.pid)
        self._pidfd = os.pidfd_open(self.process.pid)

    def wait(self, seconds: float | None = None, stop: threading.Event | None = None) -> bool:
        """True when it has ended; False after `seconds`. When `stop` is set it is told to end its tree."""
        until = None if seconds is None else time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        while True:
            if stop is not None and stop.is_set():
                self.end()
                return True
            left = WATCH if until is None else min(WATCH, until - time.monotonic())
            if poll.poll(max(left, 0) * 1000):
                return True
            if until is not None and time.monotonic() >= until:
                return False

    def signal(self, pid: int, number: int) -> None:
        """Sends one of its processes a signal; nothing happens if it has just ended."""
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def end(self) -> None:
        """Ends the tree: asked first, killed if that does not help."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            if not self.wait(PATIENCE):
                self.process.kill()

    def result(self) -> tuple[dict[str, Any], str]:
        """(the launcher's JSON object, "") or ({}, one sentence) when it gave none. Waits for it; called once."""
        complaint = self.process.communicate()[1].decode(errors="replace").strip()
        os.close(self._pidfd)
        self.at_work.discard(self.process.pid)
        if self.process.returncode < 0:
            end_orphans(self.at_work)  # it was killed: its tree is ours now
        found, flaw = read_launch(self.launch.json)
        return found, "" if found else complaint or f"the launcher ended with status {self.process.returncode} and {flaw}"

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def read_launch(path: Path) -> tuple[dict[str, Any], str]:
    """(the launcher's JSON object, "") or ({}, what is wrong with it, to follow "the launcher")."""
    try:
        found = object_of(path.read_bytes())
    except OSError:
        return {}, "left no result"
    except DAMAGE as error:
        return {}, f"left a result that cannot be read ({in_words(error)})"
    return (found, "") if found.get("status") else ({}, "left a result without a status")


def pasteable(command: Sequence[str], env: Mapping[str, str], *, stdin: Path | None = None) -> str:
    """A shell line that repeats a launch: environment additions, command, input."""
    words = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    words += [shlex.join(command)]
    words += [f"< {shlex.quote(str(stdin))}"] if stdin else []
    return " ".join(words)

# SPDX-License-Identifier: Apache-2.0
"""A server below its keeper (keeper.py), in sessions of their own: started, found again, stopped, ended."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...model.errors import HeapyardError
from ..launcher import WATCH, Launch, Running
from . import keeper
from .standstill import hold, let_go

PATIENCE = 600.0  # seconds that a server waits, after Heapyard was killed, for the command that goes on
_TELLS = 10.0  # seconds in which a keeper tells how the start went
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Kept:
    """A server and its keeper; `launch` is how it was started."""

    def __init__(self, launch: Launch, folder: Path, numbers: dict[str, Any]):
        self.launch, self._folder = launch, folder
        self.pid, self.keeper = int(numbers["pid"]), int(numbers["keeper"])
        self._ends = os.pidfd_open(self.keeper)  # which ends after its server and all that this started

    @classmethod
    def start(cls, launch: Launch, folder: Path, home: Path, patience: float = PATIENCE) -> Kept:
        """Starts it. `folder`: of this launch alone; `home`: the folder whose lock tells that somebody looks after it.

        HeapyardError, in one sentence, if it cannot be started.
        """
        told = folder / "server.json"
        spec = {
            "command": list(launch.command), "argv0": launch.argv0 or launch.command[0], "env": dict(launch.env),
            "cwd": str(launch.cwd), "stdin": str(launch.stdin or os.devnull), "stdout": str(launch.stdout),
            "stderr": str(launch.stderr), "told": str(told), "ended": str(folder / "ended.json"), "home": str(home),
            "patience": patience,
        }
        process = subprocess.Popen([sys.executable, "-I", "-S", keeper.__file__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        Running.at_work.add(process.pid)  # it is no orphan of a launcher that was killed
        assert process.stdin is not None
        process.stdin.write(json.dumps(spec).encode())  # not a file: an environment may hold secrets
        process.stdin.close()
        try:
            return cls._told_of(launch, folder, told)
        except HeapyardError:
            Running.at_work.discard(process.pid)
            raise

    @classmethod
    def _told_of(cls, launch: Launch, folder: Path, told: Path) -> Kept:
        """Waits for the keeper to tell of its server in the file `told`."""
        until = time.monotonic() + _TELLS
        while not told.exists() and time.monotonic() < until:
            time.sleep(0.005)
        numbers = _read(told)
        if "cannot" in numbers:
            raise HeapyardError(f"the server cannot be started: {numbers['cannot']}")
        if not numbers:
            raise HeapyardError(f"the keeper of the server did not tell of it within {_TELLS:g} s")
        try:
            kept = cls(launch, folder, numbers)
        except ProcessLookupError:
            raise HeapyardError("the server ended at once") from None
        told.write_text(json.dumps({**numbers, "boot": _BOOT.read_text()}))
        return kept

    @classmethod
    def find(cls, launch: Launch, folder: Path) -> Kept | None:
        """The server that an earlier command started in `folder`; None unless both processes are still the same."""
        numbers = _alive(folder)
        if numbers is None:
            return None
        try:
            return cls(launch, folder, numbers)
        except ProcessLookupError:
            return None

    def wait(self, seconds: float | None = None, stop: threading.Event | None = None) -> bool:
        """True when it and all that it started have ended; False after `seconds`, or when `stop` is set."""
        until = None if seconds is None else time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._ends, select.POLLIN)
        while True:
            left = WATCH if until is None else min(WATCH, until - time.monotonic())
            if poll.poll(max(left, 0) * 1000):
                return True
            if (stop and stop.is_set()) or (until is not None and time.monotonic() >= until):
                return False

    def hold(self) -> bool:
        """Stops all its processes; False if one cannot be."""
        return hold(self.keeper)

    def let_go(self) -> None:
        let_go(self.keeper)

    def signal(self, number: int) -> None:
        """Sends the server, not what it started, a signal."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends it, and all that it started."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._ends, signal.SIGTERM)
        self.wait(_TELLS)

    def close(self) -> str:
        """Forgets it; how it ended, to follow "the server ended", "" if it runs on."""
        with suppress(ChildProcessError):
            os.waitpid(self.keeper, os.WNOHANG)
        Running.at_work.discard(self.keeper)
        os.close(self._ends)
        return how_it_ended(self._folder)


def end_leftovers(home: Path) -> None:
    """Ends the servers that earlier commands of a run left in its folder, each with all that it started."""
    for folder in home.glob("*/launch*"):
        if (numbers := _alive(folder)) is not None:
            with suppress(ProcessLookupError):
                ends = os.pidfd_open(numbers["keeper"])
                signal.pidfd_send_signal(ends, signal.SIGTERM)
                select.select([ends], [], [], _TELLS)
                os.close(ends)


def _alive(folder: Path) -> dict[str, Any] | None:
    """The numbers of the keeper and the server that were started in `folder`, if both are still the same processes."""
    numbers = _read(folder / "server.json")
    if numbers.get("boot") != _BOOT.read_text() or (folder / "ended.json").exists():
        return None
    same = all(_began(int(numbers[name])) == numbers[began] for name, began in (("keeper", "keeper_began"), ("pid", "began")))
    return numbers if same else None


def how_it_ended(folder: Path) -> str:
    """Of the server that was started in `folder` and runs no more, to follow "the server ended"."""
    ended = _read(folder / "ended.json")
    if "status" in ended:
        code = os.waitstatus_to_exitcode(ended["status"])
        if code >= 0:
            return f"with exit code {code}"
        return f"by signal {-code} ({signal.Signals(-code).name if -code in signal.Signals._value2member_map_ else -code})"
    if "alone" in ended:
        return f"by its keeper, since no heapyard came back within {PATIENCE / 60:g} min"
    return "as it was asked to" if ended else "with its keeper"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _began(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return -1

# SPDX-License-Identifier: Apache-2.0
"""The tracer's collector: the process beside traced programs that accounts for their memory (tracer/collector)."""

from __future__ import annotations

import os
import platform
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..model import places
from ..model.errors import HeapyardError, SetupError
from ..model.shared import TOKEN_VARIABLE, WISH_VARIABLE, TracerMode
from .scratch import ScratchFolder

_LINGER = 2.0  # seconds a collector has, after its program, before it is said what it waits for


@dataclass(frozen=True, slots=True)
class Plan:
    """What to trace and how. `interval`: mean bytes between samples, a power of two. `library`: an allocator to preload.

    `attached`: to a process that runs already, for as long as this one looks. `told_by_heap`: the heap that serves is
    one of ours that samples itself; malloc then stays its own, as it does where pages are recorded. `python`: Python's
    small objects too; where every event is recorded, its functions.
    """

    command: Sequence[str]
    mode: str = "sampled"
    interval: int = 1 << 16
    depth: int = 128
    limit: int = 256 << 20
    never_step: bool = False
    attached: bool = False
    told_by_heap: bool = False
    python: bool = False
    library: Path | None = None
    env: Mapping[str, str] | None = None


class Collector:
    """The collector process while it runs; `environment` is what a program needs to be traced by it.

    `library` and `wish` are what a running process is given instead (attaching.py).
    """

    def __init__(self, folder: Path, plan: Plan):
        if platform.machine() != "x86_64":
            raise HeapyardError(f"the tracer reads unwind tables of x86-64 only; this is {platform.machine()}")
        within = plan.mode == "pages" or (plan.mode == "sampled" and plan.told_by_heap)
        name = "libheapyard_tracer_heap.so" if within else "libheapyard_tracer.so"
        binary, library = places.native("collector"), places.native(name)
        for part in (binary, library):
            if not part.exists():
                raise SetupError(f"the native part {part} is missing", remedy=places.repair())
        folder.mkdir(parents=True, exist_ok=True)
        # A socket's path has 107 bytes; a results folder may be longer.
        self._room = ScratchFolder()
        if os.geteuid() == 0:  # a child that has given up root's rights must find its way to the socket
            self._room.path.chmod(0o711)
        socket, token = self._room.path / "collector", secrets.token_hex(8)
        self._process = subprocess.Popen(
            [str(binary), "--socket", str(socket), "--folder", str(folder), "--limit", str(plan.limit),
             *(["--never-step"] if plan.never_step else []), *(["--attached"] if plan.attached else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, env={**os.environ, TOKEN_VARIABLE: token},
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            self._process.wait()
            self._room.remove()
            raise HeapyardError("the collector did not start")
        preload = [str(library), *([str(plan.library)] if plan.library else [])]
        before = (plan.env or os.environ).get("LD_PRELOAD")
        self.library = library
        how = (TracerMode[plan.mode.upper()].value, plan.interval.bit_length() - 1, plan.depth, int(plan.python))
        self.wish = ":".join([*map(str, how), token, str(socket)])
        self.environment = {"LD_PRELOAD": ":".join([*preload, *([before] if before else [])]), WISH_VARIABLE: self.wish}

    @property
    def pid(self) -> int:
        return self._process.pid

    def memory(self) -> int:
        """The most bytes it has had resident so far; 0 once it has ended."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return 0
        return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:")), 0)

    def cpu(self) -> float:
        """Seconds of CPU time it has used so far; 0 once it has ended."""
        try:
            return time.clock_gettime(~self.pid << 3 | 2)  # clock_getcpuclockid(3)
        except OSError:
            return 0.0

    def close(self, waiting: Callable[[], None] = lambda: None) -> None:
        """Waits until every traced process has ended; `waiting` is called once if that takes a while. Ctrl-C stops it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            try:
                self._process.wait(_LINGER)
            except subprocess.TimeoutExpired:
                waiting()
                self._process.wait()
        except KeyboardInterrupt:
            self.stop()
            raise
        finally:
            self._room.remove()

    def stop(self) -> None:
        """Writes what there is and ends, whoever still runs."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()
        self._room.remove()

# SPDX-License-Identifier: Apache-2.0
"""Running a command under the tracer, and where its traces go."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..execute.collector import Collector, Plan
from ..model import places
from ..model.errors import UsageError
from ..model.shared import TRACE_SUFFIX


@dataclass(frozen=True, slots=True)
class Traced:
    """How it went. `exit_code` as a shell would say it; `traces` in the order the processes began."""

    exit_code: int
    seconds: float
    traces: tuple[Path, ...]


def trace(plan: Plan, folder: Path, waiting: Callable[[], None] = lambda: None) -> Traced:
    """Runs the command and leaves a trace of each of its processes in `folder`.

    Standard streams are the command's own. Ctrl-C goes to the command; its traces are complete. UsageError when it
    cannot be started.
    """
    if shutil.which(plan.command[0]) is None:
        raise UsageError(f"there is no program '{plan.command[0]}'", remedy="Your command goes after --.")
    collector = Collector(folder, plan)
    began = time.monotonic()
    try:
        program = subprocess.Popen(list(plan.command), env={**(plan.env or os.environ), **collector.environment})
    except OSError as error:
        collector.stop()
        raise UsageError(f"{plan.command[0]}: {error.strerror}") from None
    code = _wait(program)
    seconds = time.monotonic() - began
    collector.close(waiting)
    return Traced(128 - code if code < 0 else code, seconds, tuple(sorted(folder.glob(f"*{TRACE_SUFFIX}"))))


def _wait(program: subprocess.Popen[bytes]) -> int:
    """Its exit code. A Ctrl-C reaches the program too, as it stands in the same foreground; a third one kills it."""
    for patience in range(3):
        try:
            return program.wait()
        except KeyboardInterrupt:
            if patience == 2:
                program.kill()
    return program.wait()


def new_folder(program: str) -> Path:
    """A folder for a profile, named so that they sort by time."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return places.profiles() / f"{stamp}-{Path(program).name}-{secrets.token_hex(2)}"

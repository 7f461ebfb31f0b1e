# SPDX-License-Identifier: Apache-2.0
"""Stopping all processes below one, and letting them go on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from ..server.work import below

_PATIENCE = 5.0  # seconds; a process in the middle of a system call may take a moment to stop
_REST = "TtZX"  # states of processes that do not run


def hold(pid: int) -> bool:
    """Stops every process below `pid`, those too that are forked meanwhile; True once none runs. O(processes) per look."""
    until = time.monotonic() + _PATIENCE
    while running := [one for one in below(pid) if _state(one) not in _REST]:
        for one in running:
            _send(one, signal.SIGSTOP)
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True


def let_go(pid: int) -> None:
    """Every process below `pid` goes on; one that was never stopped is not disturbed."""
    for one in below(pid):
        if _state(one) == "T":
            _send(one, signal.SIGCONT)


def _state(pid: int) -> str:
    """Its letter in /proc/PID/stat; X for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass

# SPDX-License-Identifier: Apache-2.0
"""Processes whose launcher was killed: the kernel hands them to the lab, which ends them."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Collection
from functools import cache
from pathlib import Path

_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
_INSIST = 2.0  # seconds; a process that SIGKILL does not end by then is stuck in the kernel


@cache
def adopt_orphans() -> None:
    """From now on processes below this one that lose their parent become our children, however they were daemonised."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans(launchers: Collection[int]) -> None:
    """Kills what a killed launcher left; `launchers` are those still at work: the server's, when it was its client's.

    Programs of trials are told from our own helpers by their session, which is never ours. O(children) per round; a
    round may bring up the next generation.
    """
    until = time.monotonic() + _INSIST
    while _kill_adopted(launchers) and time.monotonic() < until:
        time.sleep(0.001)


_one_at_a_time = threading.Lock()  # trials in slices end in threads of their own: what one has reaped, no other may kill


def _kill_adopted(launchers: Collection[int]) -> bool:
    """Whether there were any."""
    with _one_at_a_time:
        left = _adopted(launchers)
        for pid in left:
            os.kill(pid, signal.SIGKILL)  # not reaped, so the number is still its own
            os.waitpid(pid, os.WNOHANG)
        return bool(left)


def _adopted(launchers: Collection[int]) -> list[int]:
    ours, found = os.getsid(0), []
    for file in Path("/proc/self/task").glob("*/children"):
        try:
            children = [int(word) for word in file.read_text().split()]
        except OSError:
            continue  # the thread has ended
        found += [pid for pid in children if pid not in launchers and _session(pid) not in (ours, None)]
    return found


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None

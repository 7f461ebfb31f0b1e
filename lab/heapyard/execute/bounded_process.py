# SPDX-License-Identifier: Apache-2.0
"""A process that may hang: what it writes within a time, and the end of it and of whatever it started."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time

LOOK_AT_STOP = 0.1  # seconds


def output_within(
    process: subprocess.Popen[bytes], seconds: float, stop: threading.Event | None = None
) -> tuple[bytes, bytes] | None:
    """Its output and its errors, or None if it has not ended by then. KeyboardInterrupt when `stop` is set before."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            return process.communicate(timeout=min(left, LOOK_AT_STOP))
        except subprocess.TimeoutExpired:
            if stop and stop.is_set():
                raise KeyboardInterrupt from None
    return None


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kills the process, which began a session, and all that is left of that."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
    process.wait()

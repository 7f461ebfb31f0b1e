# SPDX-License-Identifier: Apache-2.0
"""A program of its own, around one test: what the test leaves behind, in whatever session, ends with it.

Words: a file for the test's output, then its command. It writes the test's wait status as one line. It ends itself and
all below it on SIGTERM. Only the standard library's lightest parts: it starts once per test.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from types import FrameType

_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
_SET_DEATH_SIGNAL = 1
_INSIST = 5.0  # seconds; a process that SIGKILL does not end by then is stuck in the kernel


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(word) for word in file.read().split()]


def _end_all() -> None:
    """Kills the children, then those they leave to us, and so on. O(processes) per generation."""
    until = time.monotonic() + _INSIST
    while (left := _children()) and time.monotonic() < until:
        for pid in left:
            os.kill(pid, signal.SIGKILL)  # not reaped, so the number is still its own
        for pid in left:
            os.waitpid(pid, 0)


def main(output: str, command: list[str]) -> int:
    """The keeper's exit code: 0 if the test ended by itself, whatever it said."""
    libc = ctypes.CDLL(None)
    libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def stop(number: int, frame: FrameType | None) -> None:
        _end_all()
        os._exit(1)

    signal.signal(signal.SIGTERM, stop)
    test = os.fork()
    if test == 0:
        os.setsid()
        libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        os.dup2(file, 1)
        os.dup2(file, 2)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
            os._exit(127)
    while True:
        pid, status = os.wait()  # orphans of the test end here as well
        if pid == test:
            break
    os.write(1, f"{status}\n".encode())
    _end_all()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

# SPDX-License-Identifier: Apache-2.0
"""Who heeds a signal while a command runs in front of us: the command, as under a shell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


@contextmanager
def command_in_front(process: subprocess.Popen[bytes], is_shell: bool) -> Iterator[None]:
    """Until the block ends: the first signal is the command's, the second raises KeyboardInterrupt.

    A terminal sends Ctrl-C to the command itself; what else comes is passed on. An interactive shell takes any number of
    Ctrl-C and would not end by SIGTERM, so that SIGTERM and SIGHUP raise at once.
    """
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if is_shell and number == signal.SIGINT:
            return
        came.append(number)
        if is_shell or len(came) > 1:
            raise KeyboardInterrupt
        if number != signal.SIGINT or not sys.stdin.isatty():
            _pass_on(process, number)

    heeded = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _pass_on(process: subprocess.Popen[bytes], number: int) -> None:
    """To the command: nsenter's child, or what the process itself has become."""
    if process.poll() is None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        is_waiter = Path(f"/proc/{process.pid}/comm").read_text().strip() == "nsenter"
        for pid in map(int, children) if is_waiter else [process.pid]:
            os.kill(pid, number)

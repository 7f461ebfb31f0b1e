# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and SIGHUP: the first asks the experiment to end in order, the second ends it at once.

A signal that was ignored when Heapyard started stays ignored: SIGHUP under `nohup`, SIGINT in a script's background job.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def _heeded() -> list[signal.Signals]:
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]


def interrupt_on_signals() -> None:
    """From now on SIGTERM and SIGHUP raise KeyboardInterrupt in the main thread, as Ctrl-C does."""
    for number in _heeded():
        signal.signal(number, signal.default_int_handler)


def ignore_signals() -> None:
    """From now on none of them changes anything, least of all the exit code."""
    for number in _heeded():
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that SIGINT, SIGTERM and SIGHUP set; a second signal raises KeyboardInterrupt wherever the program is.

    Outside the main thread, where Python delivers no signals, the event is simply never set.
    """
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, handle) for number in _heeded()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

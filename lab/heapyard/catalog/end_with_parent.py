# SPDX-License-Identifier: Apache-2.0
"""Programs that end when we do, even when we are killed."""

from __future__ import annotations

import ctypes
import signal

_SET_DEATH_SIGNAL = 1  # <linux/prctl.h>
_libc = ctypes.CDLL(None)


def end_with_parent() -> None:
    """For subprocess's preexec_fn. SIGTERM: compilers' drivers pass it on to what they started."""
    _libc.prctl(_SET_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)


def killed_with_parent() -> None:
    """The same for a program that may hang."""
    _libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)

# SPDX-License-Identifier: Apache-2.0
"""A setting of the system that is changed for a while, and restored whatever happens to this process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..model.errors import UsageError
from ..model.huge_pages import chosen

# Reads until the pipe ends: when this process says so, or when it is gone. Signals of a terminal do not reach it.
_GUARD = 'trap "" HUP INT TERM; cat > /dev/null; printf %s "$1" > "$2"'


def require_permission(settings: list[str]) -> None:
    """UsageError unless this process may change each "FILE=VALUE". Changes nothing."""
    for setting in settings:
        path = Path(setting.rpartition("=")[0])
        if path.exists() and not os.access(path, os.W_OK):
            raise UsageError(f"only root may change {path}")


@contextmanager
def changed(setting: str) -> Iterator[None]:
    """The system with "FILE=VALUE". A guard of its own puts the old value back, even after kill -9. A few ms."""
    name, _, value = setting.rpartition("=")
    path = Path(name)
    old = in_force(path.read_text())
    if old == value:
        yield
        return
    guard = subprocess.Popen(["/bin/sh", "-c", _GUARD, "sh", old, name], stdin=subprocess.PIPE, start_new_session=True)
    try:
        path.write_text(value)
        yield
    finally:
        assert guard.stdin
        guard.stdin.close()
        guard.wait()


def in_force(text: str) -> str:
    """The value in force: the bracketed one where the file lists them all."""
    return chosen(text) or text.strip()

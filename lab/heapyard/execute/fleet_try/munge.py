# SPDX-License-Identifier: Apache-2.0
"""Who may speak to this Slurm: a munged with a key and a socket of its own."""

from __future__ import annotations

import os
from pathlib import Path

from ...model.errors import UsageError

_KEY_BYTES = 128
_LONGEST_SOCKET = 107  # bytes of a path in sockaddr_un


def socket_of(folder: Path) -> Path:
    """UsageError if the kernel takes no path as long as this folder's."""
    socket = folder / "munge.socket"
    if len(os.fsencode(socket)) > _LONGEST_SOCKET:
        raise UsageError(f"the path {folder} is too long for a socket", remedy="Choose a shorter one with --keep.")
    return socket


def write_key(folder: Path) -> None:
    """Random, and readable by nobody else."""
    descriptor = os.open(folder / "munge.key", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(os.urandom(_KEY_BYTES))


def munged(folder: Path) -> list[str]:
    """Its command line. --force: munged distrusts folders that others may write, such as /tmp above this one."""
    return [
        "munged", "--foreground", "--force", "--num-threads=2", f"--key-file={folder / 'munge.key'}",
        f"--socket={socket_of(folder)}", f"--pid-file={folder / 'munge.pid'}", f"--seed-file={folder / 'munge.seed'}",
        f"--log-file={folder / 'log' / 'munged'}",
    ]

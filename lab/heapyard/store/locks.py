# SPDX-License-Identifier: Apache-2.0
"""Never two experiments at once: one lock for the machine, one per experiment.

Both vanish with the process that holds them.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from ..model.damage import DAMAGE, object_of
from ..model.errors import HeapyardError
from .filesystem import network_type

_LEASE = ".heapyard-merge"  # in a folder of results that several machines share
_POLL = 0.5  # seconds between looks at a lock that another experiment holds


class MachineLock:
    """Held while trials run. Every user of the machine shares one file, since their trials would disturb each other.

    HEAPYARD_LOCK names another file, for machines of which several parts are measured independently.
    """

    def __init__(self, path: Path | None = None):
        self.path = path or _machine_path()
        self._file: int | None = None

    def acquire(self, holder: str, *, wait: bool = False, waiting: Callable[[str], None] = lambda who: None) -> None:
        """Take the lock in the name of `holder`; if another has it, HeapyardError, or `wait` until it is free.

        `waiting` is called once with a sentence on who holds it.
        """
        descriptor = self._open()
        told = False
        while not _try_lock(descriptor):
            who = _describe(descriptor)
            if not wait:
                os.close(descriptor)
                raise HeapyardError(
                    f"another experiment is running on this machine ({who}); two would disturb each other",
                    remedy="Wait for it, or say --wait.",
                )
            if not told:
                waiting(who)
                told = True
            time.sleep(_POLL)
        self._file = descriptor
        _write(descriptor, json.dumps({"pid": os.getpid(), "holder": holder, "since": time.time()}))

    def release(self) -> None:
        """Let others run; harmless when the lock is not held."""
        if self._file is not None:
            _write(self._file, "")
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            try:
                return os.open(
                    self.path, flags
                )  # without O_CREAT: sticky folders refuse that on a file of another user
            except FileNotFoundError:
                descriptor = os.open(self.path, flags | os.O_CREAT, 0o666)
                os.fchmod(descriptor, 0o666)  # whatever the umask says, the next user must be able to take it
                return descriptor
        except OSError as error:
            raise HeapyardError(
                f"{self.path}: the machine's lock cannot be opened ({error.strerror})",
                remedy="HEAPYARD_LOCK names another file for it.",
            ) from None


class ExperimentLock:
    """Held by the process that carries out an experiment: a lock on its folder.

    HeapyardError when another one has it.
    """

    def __init__(self, folder: Path):
        self._file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for _ in range(10):
            if _try_lock(self._file):
                return
            time.sleep(0.01)  # `is_locked` of another process holds it for an instant
        os.close(self._file)
        raise HeapyardError(f"experiment {folder.name} is being carried out by another heapyard")

    def release(self) -> None:
        os.close(self._file)


class FolderLock:
    """Held while experiments are brought together in a folder of results; a context manager that waits for others.

    A lock on a folder holds among the processes of one machine. Where several share the folder, a file that only one can create
    holds between them. HeapyardError where a process of another machine has it, which this one cannot ask.
    """

    def __init__(self, folder: Path, *, poll: float = 0.05):
        self._folder, self._poll = folder, poll
        self._lease = folder / _LEASE if network_type(folder) else None

    def __enter__(self) -> FolderLock:
        self._file = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            while not _try_lock(self._file):
                time.sleep(self._poll)
            if self._lease is not None:
                self._take(self._lease)
        except BaseException:
            os.close(self._file)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._lease is not None:
            self._lease.unlink(missing_ok=True)
        os.close(self._file)

    def _take(self, lease: Path) -> None:
        host = socket.gethostname()
        try:
            with lease.open("x") as file:
                file.write(host)
        except FileExistsError:
            holder = lease.read_text(errors="replace").strip()
            if holder != host:
                raise HeapyardError(
                    f"{lease}: {holder or 'another machine'} is bringing experiments together here",
                    remedy="Wait for it. If it was killed, remove the file.",
                ) from None
            # This machine's lock on the folder is ours, so whoever wrote the file is gone.


def is_locked(folder: Path) -> bool:
    """Is a process carrying out the experiment in this folder?"""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise HeapyardError(f"files cannot be locked here ({error.strerror})") from None
    return True


def _machine_path() -> Path:
    given = os.environ.get("HEAPYARD_LOCK")
    if given:
        return Path(given)
    folder = next(
        (f for f in (Path("/run/lock"), Path("/var/lock")) if f.is_dir() and os.access(f, os.W_OK)), Path("/tmp")
    )
    return folder / "heapyard.lock"


def _describe(descriptor: int) -> str:
    try:
        held = object_of(os.pread(descriptor, 4096, 0) or b"{}")
        since = time.strftime("%H:%M", time.localtime(held["since"]))
        return " ".join(f"{held['holder']}, process {held['pid']}, since {since}".split())
    except (OSError, *DAMAGE):
        return "its holder has not said who it is"


def _write(descriptor: int, text: str) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
    except OSError:
        pass  # the name of the holder is a courtesy; the lock itself holds

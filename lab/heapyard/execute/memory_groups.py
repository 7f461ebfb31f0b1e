# SPDX-License-Identifier: Apache-2.0
"""A control group of version 2 for each trial, where this process may make one: the kernel keeps its account of memory."""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..model.errors import SetupError
from ..model.experiment import Settings
from .machine.files import Files

MOUNT = "sys/fs/cgroup"
EMPTIES = 5.0  # seconds in which the kernel is given to take the ended processes out of a group
_LIMITS = {"memory.max": "memory", "memory.high": "memory", "cpu.max": "processor time"}
_numbers = itertools.count()


def home_of_groups(files: Files) -> tuple[str, str]:
    """(path of the group that may hold a group per trial, "") or ("", why there is none).

    It is the nearest group above this process's own that gives accounts of memory to groups below it, and that we may
    write to. Nothing is changed. O(depth) small reads.
    """
    if files.text(f"{MOUNT}/cgroup.controllers") is None:
        return "", "there are no control groups of version 2"
    path = next((p for p in (files.text("proc/self/cgroup") or "").splitlines() if p.startswith("0::")), "0::/")[3:]
    parts = [p for p in path.split("/") if p]
    if ".." in parts:
        return "", "the control group of this process lies outside of what it can see"
    for depth in range(len(parts), -1, -1):
        folder = "/".join([MOUNT, *parts[:depth]])
        # A group that holds processes, as our own does, has no groups with accounts below; the root alone may.
        usable = depth < len(parts) or depth == 0
        if usable and "memory" in (files.text(f"{folder}/cgroup.subtree_control") or "").split():
            if all(os.access(files.root / folder / name, os.W_OK) for name in (".", "cgroup.procs")):
                return folder, ""
        for name, what in _LIMITS.items():
            if (limit := files.text(f"{folder}/{name}")) and limit.split()[0] != "max":
                return "", f"a group for each trial would escape the limit of {what} that this process has"
    return "", "no control group above this process lets it make one with an account of memory"


@contextmanager
def group_for(settings: Settings) -> Iterator[Path | None]:
    """The folder of a new control group for one trial; None in an experiment without groups.

    Where none can be made any more (resumed elsewhere) the trial goes without its figures; SetupError if they lead.
    """
    if not settings.control_groups:
        yield None
        return
    with ExitStack() as ending:
        try:
            folder = ending.enter_context(own_group())
        except SetupError:
            if settings.memory_metric.startswith("group_"):
                raise
            folder = None
        yield folder


@contextmanager
def own_group() -> Iterator[Path]:
    """The folder of a new and empty control group; SetupError with the reason where none can be made.

    The group is gone afterwards, its processes having ended. About 1 ms.
    """
    folder = _make(Files(Path("/")))
    try:
        yield folder
    finally:
        _remove(folder)


def _make(files: Files) -> Path:
    home, reason = home_of_groups(files)
    folder = files.root / home / f"heapyard-{os.getpid()}-{next(_numbers)}"
    if home:
        _remove_orphans(folder.parent)
        try:
            folder.mkdir()
        except OSError as error:
            reason = f"{folder.parent}: {error.strerror}"
        else:
            if (folder / "memory.peak").exists():
                return folder
            _remove(folder)
            reason = "this kernel does not keep a group's peak of memory (it does from Linux 5.19 on)"
    raise SetupError(f"a trial cannot have a control group for itself: {reason}")


@functools.cache
def _remove_orphans(home: Path) -> None:
    """The groups of killed Heapyards, once per process. The kernel refuses to remove one that holds processes."""
    for folder in home.glob("heapyard-*-*"):
        owner = folder.name.split("-")[1]
        if owner.isdigit() and not Path("/proc", owner).exists():
            try:
                folder.rmdir()
            except OSError:
                pass


def _remove(folder: Path) -> None:
    """One that still holds a process which nothing can end is left; it costs nothing."""
    until = time.monotonic() + EMPTIES
    while True:
        try:
            return folder.rmdir()
        except OSError:
            if time.monotonic() >= until:
                return None
            time.sleep(0.01)

"""A control group of version 2 for each trial, where this process may make one: its account of memory is the kernel's own."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..model.errors import SetupError
from ..model.experiment import Settings
from ..model.leading import GROUP_CHARGED
from .machine_files import Files

MOUNT = "sys/fs/cgroup"
EMPTIES = 5.0  # seconds in which the kernel is given to take the ended processes out of a group
_LIMITS = {"memory.max": "memory", "memory.high": "memory", "cpu.max": "processor time"}
_numbers = itertools.count()


def home_of_groups(files: Files) -> tuple[str, str]:
    """(path of the group that may hold a group per trial, "") or ("", why there is none).

    It is the nearest group above this process's own which lets its groups have accounts of memory and which we may write to.
    Nothing is changed. O(depth) small reads.
    """
    if files.text(f"{MOUNT}/cgroup.controllers") is None:
        return "", "there are no control groups of version 2"
    path = next((p for p in (files.text("proc/self/cgroup") or "").splitlines() if p.startswith("0::")), "0::/")[3:]
    parts = [p for p in path.split("/") if p]
    if ".." in parts:
        return "", "the control group of this process lies outside of what it can see"
    own = "/".join([MOUNT, *parts])
    for name, what in _LIMITS.items():
        if (limit := files.text(f"{own}/{name}")) is not None and limit.split()[0] != "max":
            return "", f"the control group of this process has a limit of {what}, which a group beside it would escape"
    for depth in range(max(len(parts) - 1, 0), -1, -1):
        folder = "/".join([MOUNT, *parts[:depth]])
        if "memory" not in (files.text(f"{folder}/cgroup.subtree_control") or "").split():
            continue
        if all(os.access(files.root / folder / name, os.W_OK) for name in (".", "cgroup.procs")):
            return folder, ""
    return "", "no control group above this process lets it make one with an account of memory"


@contextmanager
def group_for(settings: Settings) -> Iterator[Path | None]:
    """The folder of a new control group for one trial of an experiment that measures by groups, else None.

    SetupError where none can be made: an experiment keeps to one source. The group is gone afterwards, its processes having
    ended. About 1 ms.
    """
    if settings.memory_metric != GROUP_CHARGED:
        yield None
        return
    folder = make_group(Files(Path("/")))
    try:
        yield folder
    finally:
        _remove(folder)


def make_group(files: Files) -> Path:
    """A new and empty group; SetupError with the reason when there can be none."""
    home, reason = home_of_groups(files)
    folder = files.root / home / f"heapyard-{os.getpid()}-{next(_numbers)}"
    if home:
        try:
            folder.mkdir()
        except OSError as error:
            reason = f"{folder.parent}: {error.strerror}"
        else:
            if (folder / "memory.peak").exists():
                return folder
            _remove(folder)
            reason = "this kernel does not keep a group's peak of memory (it does from Linux 5.19 on)"
    raise SetupError(
        f"a trial cannot have a control group for itself: {reason}",
        remedy=f"Measure by looks instead: memory = \"charged\" in a study; {SCOPE} may help too.",
    )


SCOPE = "systemd-run --user --scope heapyard ..."


def _remove(folder: Path) -> None:
    """One that still holds a process which nothing can end is left; it costs nothing."""
    until = time.monotonic() + EMPTIES
    while True:
        try:
            return folder.rmdir()
        except OSError:
            if time.monotonic() >= until:
                return
            time.sleep(0.01)

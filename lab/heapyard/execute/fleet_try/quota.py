# SPDX-License-Identifier: Apache-2.0
"""A node slowed by the kernel: a control group whose processes get a share of one processor.

Version 2 of control groups where it has the controller `cpu`, else version 1.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from ..control_groups import group_folders
from ..machine.files import Files

_PERIOD = 10_000  # microseconds: short beside a trial, so that a short trial is slowed like a long one
_PREFIX = "heapyard_fleet_"
_YOUNG = 60.0  # seconds in which a group may have been made and have no process yet
_INSIST = 5.0  # seconds that the kernel may take to see a group empty


def make_group(name: str, share: float) -> Path:
    """The folder of a new group: our own one's child, else that of one above. OSError where the machine grants none.

    What a keeper that was killed has left goes. O(groups below ours).
    """
    failure = OSError("no control group here has a processor's quota")
    _sweep()
    for above in _places():
        folder = above / f"{_PREFIX}{os.getpid()}_{time.monotonic_ns()}_{name}"
        try:
            folder.mkdir()
            try:
                _limit(folder, share)
                return folder
            except OSError:
                folder.rmdir()
                raise
        except OSError as error:
            failure = error
    raise failure


def left_groups() -> list[Path]:
    """Groups of nodes that are there now, of whichever throw-away Slurm."""
    return [group for above in _places() for group in above.glob(f"{_PREFIX}*")]


def _places() -> list[Path]:
    """Real groups only: where both versions are mounted, /sys/fs/cgroup itself is an ordinary folder."""
    places = [Path("/") / folder for folder in group_folders(Files(Path("/")), "cpu")]
    return [place for place in places if (place / "cgroup.procs").exists()]


def _limit(folder: Path, share: float) -> None:
    quota = round(share * _PERIOD)
    if (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text(f"{quota} {_PERIOD}")
    else:  # of version 1; where version 2 is without the controller, neither file is there, nor can it be made
        (folder / "cpu.cfs_period_us").write_text(str(_PERIOD))
        (folder / "cpu.cfs_quota_us").write_text(str(quota))


def _sweep() -> None:
    for left in left_groups():
        try:
            if time.time() - left.stat().st_mtime > _YOUNG:
                left.rmdir()  # fails while a process is in it
        except OSError:
            continue


def remove_group(folder: Path) -> None:
    """When its processes have ended; the kernel may take a moment to see it."""
    until = time.monotonic() + _INSIST
    while folder.exists():
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)

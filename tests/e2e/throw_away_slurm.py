# SPDX-License-Identifier: Apache-2.0
"""What tests need of a throw-away Slurm: its packages, and a look at what it has left."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from heapyard.execute.fleet_try.packages import PROGRAMS, extend_path
from heapyard.execute.fleet_try.quota import left_groups

SCRATCH = "heapyard_"  # how execute/scratch.py names its folders


def require_slurm() -> None:
    """Skip where the packages of setup/debian-packages-test could not be had."""
    extend_path()
    if absent := [package for program, package in PROGRAMS.items() if not shutil.which(program)]:
        pytest.skip(f"this machine has no package {', '.join(absent)}, and its distribution may have none")


def processes(*words: str) -> list[str]:
    """Command lines of running processes that hold one of these words; this process and those above it are left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if int(path.name) not in (os.getpid(), os.getppid()) and any(word in line for word in words):
            found.append(line)
    return found


def left_by(folder: Path, *words: str) -> list[str]:
    """Processes, folders and control groups that a fleet in `folder` has left; `words` tell what its jobs run."""
    return [*processes(str(folder), *words), *map(str, [folder] if folder.exists() else []), *map(str, left_groups())]

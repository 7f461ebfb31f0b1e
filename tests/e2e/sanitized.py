# SPDX-License-Identifier: Apache-2.0
"""Builds with a sanitizer, made one at a time: test files that run beside each other may want the same."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

from heapyard.model import places


def carry_out(root: Path, *command: str) -> str:
    """Its standard output; the test fails if it does."""
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def built(root: Path, preset: str, *targets: str) -> Path:
    """The folder of the build."""
    folder = places.state() / "build" / preset
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        carry_out(root, "cmake", "-S", str(root), "--preset", preset, "-B", str(folder))
        carry_out(root, "cmake", "--build", str(folder), "--target", *targets)
    return folder

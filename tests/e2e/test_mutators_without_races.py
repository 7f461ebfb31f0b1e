# SPDX-License-Identifier: Apache-2.0
"""Every mutator under ThreadSanitizer: the threads of the harness itself never race."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from heapyard.model import places

pytestmark = pytest.mark.slow


def mutators(root: Path) -> list[str]:
    """Each has an executable of its folder's name."""
    return sorted(folder.name for folder in (root / "mutators").iterdir() if (folder / "main.cpp").exists())


def carry_out(root: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_no_mutator_races(root: Path) -> None:
    build = str(places.state() / "build" / "tsan")
    carry_out(root, "cmake", "-S", str(root), "--preset", "tsan", "-B", build)
    carry_out(root, "cmake", "--build", build, "--target", *mutators(root))
    told = carry_out(root, "ctest", "--test-dir", build, "-R", r"^mutators\.", "--no-tests=error", "--output-on-failure")
    assert all(f"mutators.{name}" in told for name in mutators(root))

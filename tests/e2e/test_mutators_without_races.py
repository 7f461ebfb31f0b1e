# SPDX-License-Identifier: Apache-2.0
"""Every mutator under ThreadSanitizer: the threads of the harness itself never race."""

from __future__ import annotations

from pathlib import Path

import pytest
from sanitized import built, carry_out

pytestmark = pytest.mark.slow


def mutators(root: Path) -> list[str]:
    """Each has an executable of its folder's name."""
    return sorted(folder.name for folder in (root / "mutators").iterdir() if (folder / "main.cpp").exists())


def test_no_mutator_races(root: Path) -> None:
    build = built(root, "tsan", *mutators(root))
    told = carry_out(root, "ctest", "--test-dir", str(build), "-R", r"^mutators\.", "--no-tests=error", "--output-on-failure")
    assert all(f"mutators.{name}" in told for name in mutators(root))

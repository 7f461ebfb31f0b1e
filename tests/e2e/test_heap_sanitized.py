# SPDX-License-Identifier: Apache-2.0
"""The layers of the heap under AddressSanitizer with UndefinedBehaviorSanitizer, and under ThreadSanitizer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from heapyard.model import places

pytestmark = pytest.mark.slow


def carry_out(root: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


# A sanitizer's own runtime may hang in the child of a fork that meets a starting thread, and knows no fibers. Under
# ThreadSanitizer, ten times slower, variants of a heap and what has one thread only are left out, and so is the window:
# ThreadSanitizer lays out the address space itself.
TESTS = {
    "asan": "-FirstVisit.*:Schedules.*",
    "tsan": "-FirstVisit.*:Schedules.*:Composition/Variant*:RedBlackTree.*:BestFit.*:AddressSpace.AWindow*",
}


@pytest.mark.parametrize("preset", ["asan", "tsan"])
def test_the_layers_are_clean(root: Path, preset: str) -> None:
    build = places.state() / "build" / preset
    carry_out(root, "cmake", "-S", str(root), "--preset", preset, "-B", str(build))
    carry_out(root, "cmake", "--build", str(build), "--target", "heap_test")
    told = carry_out(root, str(build / "bin" / "heap_test"), "--gtest_brief=1", f"--gtest_filter={TESTS[preset]}")
    assert "[  PASSED  ]" in told and "FAILED" not in told

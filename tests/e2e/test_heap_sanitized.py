# SPDX-License-Identifier: Apache-2.0
"""The layers of the heap under AddressSanitizer with UndefinedBehaviorSanitizer, and under ThreadSanitizer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from heapyard.model import places

pytestmark = pytest.mark.slow


def carry_out(root: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


# A sanitizer's own runtime may hang in the child of a fork that meets a starting thread, and knows no fibers. Under
# ThreadSanitizer, ten times slower, what has one thread only is left out (the test itself leaves out variants of a heap),
# and so is the window: ThreadSanitizer lays out the address space itself.
TESTS = {
    "asan": "-FirstVisit.*:Schedules.*",
    "tsan": "-FirstVisit.*:Schedules.*:RedBlackTree.*:BestFit.*:AddressSpace.AWindow*",
}


@pytest.fixture(scope="module")
def running(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[subprocess.Popen[bytes], Path]]]:
    """Both under way at once, each with the file that takes its output: most of their tests keep one processor busy.

    Both are built at once as well: one file of each takes the compiler longer than all others together.
    """
    builds = {preset: places.state() / "build" / preset for preset in TESTS}

    def build(preset: str) -> Path:
        carry_out(root, "cmake", "-S", str(root), "--preset", preset, "-B", str(builds[preset]))
        carry_out(root, "cmake", "--build", str(builds[preset]), "--target", "heap_test")
        return builds[preset] / "bin" / "heap_test"

    with ThreadPoolExecutor(len(TESTS)) as both:
        programs = dict(zip(TESTS, both.map(build, TESTS), strict=True))
    started = {}
    try:
        for preset, program in programs.items():
            told = tmp_path_factory.mktemp(preset) / "told"
            words = [program, "--gtest_brief=1", f"--gtest_filter={TESTS[preset]}"]
            with told.open("wb") as out:
                started[preset] = subprocess.Popen(words, cwd=root, stdout=out, stderr=subprocess.STDOUT), told
        yield started
    finally:
        for process, _ in started.values():
            process.kill()
            process.wait()


@pytest.mark.parametrize("preset", TESTS)
def test_the_layers_are_clean(running: dict[str, tuple[subprocess.Popen[bytes], Path]], preset: str) -> None:
    process, out = running[preset]
    code = process.wait(timeout=1200)
    told = out.read_text(errors="replace")
    assert code == 0 and "[  PASSED  ]" in told and "FAILED" not in told, told[-4000:]

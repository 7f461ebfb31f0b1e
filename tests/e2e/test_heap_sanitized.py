# SPDX-License-Identifier: Apache-2.0
"""The layers of the heap under AddressSanitizer with UndefinedBehaviorSanitizer, and under ThreadSanitizer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sanitized import built

pytestmark = pytest.mark.slow


# A sanitizer's own runtime may hang in the child of a fork that meets a starting thread, and knows no fibers. Under
# ThreadSanitizer, ten times slower, what has one thread only is left out: most of it is not compiled, and the tests leave out
# variants of a heap by themselves.
TESTS = {
    "asan": "-FirstVisit.*:Schedules.*",
    "tsan": "-FirstVisit.*:PageRuns.Random*:PageSpans.Random*",
}


@pytest.fixture(scope="module")
def running(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[subprocess.Popen[bytes], Path]]]:
    """Each under way once it is built, with the file that takes its output: most of their tests keep one processor busy."""
    started: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
    try:
        for preset in TESTS:
            program = built(root, preset, "heap_test") / "bin" / "heap_test"
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

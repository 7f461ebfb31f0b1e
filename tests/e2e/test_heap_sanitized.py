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
# variants of a heap by themselves. Left out too is usage(), which reads what owners write by plain stores.
LEFT_OUT = {
    "asan": "FirstVisit.*:Schedules.*",
    "tsan": "FirstVisit.*:PageRuns.Random*:PageSpans.Random*:Sampling/*.EachSample*:Sampling/*.ASampleComes*:"
            "FirstClassHeaps.KeepWhat*:*WhoAsksForUsage*",
}
# Those that fork have a process of their own: in one that the other tests have made large, each fork takes ten times as long.
CHOSEN = {"forks": "*Fork*:-{}", "the rest": "-*Fork*:{}"}
RUNS = [(preset, chosen) for preset in LEFT_OUT for chosen in CHOSEN]

Run = tuple[subprocess.Popen[bytes], Path]


@pytest.fixture(scope="module")
def running(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Run]]:
    """Each under way once it is built, with the file that takes its output: most of their tests keep one processor busy."""
    started: dict[tuple[str, str], Run] = {}
    try:
        for preset, chosen in RUNS:
            program = built(root, preset, "heap_test") / "bin" / "heap_test"
            told = tmp_path_factory.mktemp(preset) / "told"
            words = [program, "--gtest_brief=1", f"--gtest_filter={CHOSEN[chosen].format(LEFT_OUT[preset])}"]
            with told.open("wb") as out:
                started[preset, chosen] = subprocess.Popen(words, cwd=root, stdout=out, stderr=subprocess.STDOUT), told
        yield started
    finally:
        for process, _ in started.values():
            process.kill()
            process.wait()


@pytest.mark.parametrize(("preset", "chosen"), RUNS)
def test_the_layers_are_clean(running: dict[tuple[str, str], Run], preset: str, chosen: str) -> None:
    process, out = running[preset, chosen]
    code = process.wait(timeout=1200)
    told = out.read_text(errors="replace")
    assert code == 0 and "[  PASSED  ]" in told and "FAILED" not in told, told[-4000:]

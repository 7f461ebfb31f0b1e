# SPDX-License-Identifier: Apache-2.0
"""The heaps with a reservation in processes that may not have one: they do with less, say so when asked, and never crash."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable

import pytest

from heapyard.model import places

HEAPS = ("scalloc", "scalloc-spans-256k", "elfmalloc")
SMALL = "x = [bytearray(100) for _ in range(100_000)]; print(len(x))"
TOO_MUCH = """
try:
    x = [bytearray(100) for _ in range(10_000_000)]
except MemoryError:
    print("refused")
"""


def run(heap: str, limit: Callable[[], None] | None, script: str, **more: str) -> subprocess.CompletedProcess[str]:
    library = places.native(f"lib{heap}.so").resolve()
    environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONMALLOC": "malloc", **more}
    command = [os.path.realpath(sys.executable), "-S", "-E", "-c", script]
    return subprocess.run(command, env=environment, preexec_fn=limit, capture_output=True, text=True, timeout=120)


def at_most(what: int, mebibytes: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(what, (mebibytes << 20, mebibytes << 20))


@pytest.mark.parametrize("heap", HEAPS)
def test_without_limits_nothing_is_said(heap: str) -> None:
    done = run(heap, None, SMALL, HEAPYARD_VERBOSE="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "100000\n", "")


@pytest.mark.parametrize("heap", HEAPS)
@pytest.mark.parametrize(("what", "mebibytes"), [(resource.RLIMIT_AS, 800), (resource.RLIMIT_DATA, 400)])
def test_under_a_limit_spans_take_a_share_and_what_is_too_much_is_refused(heap: str, what: int, mebibytes: int) -> None:
    limit = at_most(what, mebibytes)
    asked = run(heap, limit, SMALL, HEAPYARD_VERBOSE="1")
    assert asked.returncode == 0 and asked.stdout == "100000\n"
    assert asked.stderr.startswith(f"heapyard: spans take up to {mebibytes // 16} MiB, ") and asked.stderr.count("\n") == 1
    silent = run(heap, limit, SMALL)
    assert (silent.returncode, silent.stderr) == (0, "")
    refused = run(heap, limit, TOO_MUCH)
    assert (refused.returncode, refused.stdout) == (0, "refused\n"), refused.stderr[-500:]

# SPDX-License-Identifier: Apache-2.0
"""Every schedule of the heaps' protocols, and what each order in them is for (docs/schedules.md).

HEAPYARD_EXECUTIONS: how many of each protocol are run, 1,000,000 unless said otherwise; of each with a weakened order a
tenth, 20,000 at most.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from heapyard.model import places


def schedules(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(places.native("heap_schedules")), *words], capture_output=True, text=True)


def test_a_wrong_option_is_told() -> None:
    assert schedules("--all").returncode == 2


def test_a_protocol_can_be_chosen() -> None:
    run = schedules("--only", "put aside", "--most", "200", "--mutants", "50")
    assert run.returncode == 0, run
    assert run.stdout.startswith("put aside (heap/core/free_stack.hpp), 2 threads: ")
    assert "busy_.store(false, std::memory_order_release); (heap/core/free_stack.hpp:" in run.stdout


@pytest.mark.on_request
def test_each_order_of_the_heaps_is_needed_or_has_a_reason() -> None:
    executions = int(os.environ.get("HEAPYARD_EXECUTIONS", 1_000_000))
    run = schedules("--markdown", "--most", str(executions), "--mutants", str(min(20_000, max(1, executions // 10))))
    print(run.stdout)
    assert run.returncode == 0, run.stdout[-2000:]

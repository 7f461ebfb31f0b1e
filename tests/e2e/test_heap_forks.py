# SPDX-License-Identifier: Apache-2.0
"""Forks beside threads that are in the C library, for as long as one likes: HEAPYARD_MINUTES, 1 unless told, for all heaps
side by side, or those that HEAPYARD_HEAPS names.

    HEAPYARD_MINUTES=10 HEAPYARD_HEAPS=bfm,scalloc pytest --on-request tests/e2e/test_heap_forks.py

The short run of each heap is heap.forks_beside.NAME among the native tests.
"""

from __future__ import annotations

import os
import subprocess

import pytest
from heapyard.catalog.own_heaps import own_heaps
from heapyard.model import places

MINUTES = float(os.environ.get("HEAPYARD_MINUTES", "1"))
HEAPS = os.environ.get("HEAPYARD_HEAPS", "").split(",") if "HEAPYARD_HEAPS" in os.environ else [h.name for h in own_heaps()]
TOGETHER = 4  # heaps at a time


@pytest.mark.on_request
@pytest.mark.parametrize("first", range(0, len(HEAPS), TOGETHER), ids=lambda first: "-".join(HEAPS[first : first + TOGETHER]))
def test_nothing_hangs(first: int) -> None:
    program, seconds = str(places.native("forks_beside")), str(round(60 * MINUTES))
    running = {
        heap: subprocess.Popen(
            [program, seconds],
            env={**os.environ, "LD_PRELOAD": str(places.native(f"lib{heap}.so").resolve())},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for heap in HEAPS[first : first + TOGETHER]
    }
    told = {heap: process.communicate()[0] for heap, process in running.items()}
    print(*(f"{heap}: {text}" for heap, text in told.items()), sep="", end="")
    wrong = {heap: (process.returncode, told[heap]) for heap, process in running.items() if process.returncode != 0}
    assert not wrong

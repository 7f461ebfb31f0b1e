# SPDX-License-Identifier: Apache-2.0
"""leak_window: a window in bytes, a few survivors, sizes that drift, and memory that shows it."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest
from heapyard.model import places
from mutator_runs import Operation, Random, free, logged, malloc, measure, metric, run

SURVIVOR = 2**62


class Fifo:
    def __init__(self, budget: int, first: int) -> None:
        self.budget, self.next = budget, first
        self.held: deque[tuple[int, int]] = deque()

    def add(self, size: int, done: list[Operation]) -> None:
        done.append(malloc(self.next, size))
        self.held.append((self.next, size))
        self.next += 1
        while sum(size for _, size in self.held) > self.budget:
            done.append(free(self.held.popleft()[0]))


def model(
    thread: int, window: int, keep: int, survivors: int, epochs: int, turns: int, low: int, high: int, law: str
) -> list[Operation]:
    random = Random(11, thread)
    passing, staying = Fifo(window, 0), Fifo(keep, SURVIVOR)
    octaves = high.bit_length() - low.bit_length() + 1
    done: list[Operation] = []
    for epoch in range(epochs):
        allocated = 0
        while allocated < turns * window:
            size = random.octave(low, high, epoch % octaves if law == "drift" else None)
            (staying if random.percent(survivors) else passing).add(size, done)
            allocated += size
    return done + [free(number) for fifo in (passing, staying) for number, _ in fifo.held]


@pytest.mark.parametrize("threads, window, keep, survivors, epochs, turns, low, high", [
    (1, 2000, 1000, 10, 5, 3, 16, 200), (3, 500, 500, 0, 2, 1, 1, 500), (2, 300, 300, 100, 7, 2, 100, 100),
])
@pytest.mark.parametrize("law", ["drift", "mixed"])
def test_operations_are_those_of_the_model(
    tmp_path: Path, threads: int, window: int, keep: int, survivors: int, epochs: int, turns: int, low: int, high: int,
    law: str,
) -> None:
    given = (f"-n {threads} -r 11 --window {window} --keep {keep} --survivors {survivors} --epochs {epochs} "
             f"--turns {turns} --min-size {low} --max-size {high} --sizes {law}").split()
    expected = {t: model(t, window, keep, survivors, epochs, turns, low, high, law) for t in range(threads)}
    assert logged(tmp_path, "leak_window", *given) == expected


def test_the_workload_holds_no_more_than_it_says() -> None:
    result = measure("leak_window", "--window", "1M", "--keep", "512K", "--sample-period", "1")
    live = result["series"]["live"]
    assert 1 << 20 < max(live) <= (3 << 19) + 4096 and metric(result, "live_average") > 0.9 * 2**20


def test_the_blowup_of_a_heap_that_never_frees_is_all_it_gave_over_what_was_held() -> None:
    """With objects of 16 bytes and up there is nothing between them: the peak is what was asked for in all."""
    result = measure("leak_window", *"--window 1M --keep 1M --epochs 8 --min-size 1K --max-size 4K".split(),
                     preload=places.native("libbump.so"))
    assert metric(result, "heap_peak") == pytest.approx(result["counts"]["bytes"], rel=0.02)
    held = max(result["series"]["live"])
    assert metric(result, "blowup") == pytest.approx(metric(result, "heap_peak") / held, rel=0.01)
    assert metric(result, "blowup") > 6


def test_drift_fragments_what_mixed_sizes_do_not() -> None:
    """Under glibc, where holes between survivors of small sizes cannot serve larger ones."""
    drift, mixed = (metric(measure("leak_window", "--sizes", law), "blowup") for law in ("drift", "mixed"))
    assert mixed < 1.3 < 1.5 < drift


def test_a_window_holds_at_least_one_object() -> None:
    done = run("leak_window", "--window", "4095")
    assert done.returncode == 2 and done.stderr == (
        "leak_window: options --window and --keep must hold an object of the maximum size 4096, which 4095 bytes do "
        "not\n"
    )

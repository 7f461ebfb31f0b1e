# SPDX-License-Identifier: Apache-2.0
"""realloc_growth: vectors multiply, strings add, and no byte is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from heapyard.model import places
from mutator_runs import Operation, Random, free, logged, measure, metric, run


class Buffer:
    def __init__(self, number: int, vector: bool, target: int) -> None:
        self.number, self.vector, self.target = number, vector, target
        self.length = self.capacity = 0

    def append(self, random: Random, growth: int, shrink: bool, done: list[Operation]) -> None:
        if self.vector:
            self.capacity = max(64, self.capacity + 1, self.capacity * growth // 100)
            self.length = min(self.capacity, self.target)
        else:
            self.length = self.capacity = min(self.length + random.between(1, 30), self.target)
        done.append(Operation("realloc", self.number, self.capacity))
        if self.full and shrink and self.capacity > self.length:
            done.append(Operation("realloc", self.number, self.length))

    @property
    def full(self) -> bool:
        return self.length == self.target


def model(thread: int, mode: str, growth: int, apart: bool, shrink: bool) -> list[Operation]:
    random = Random(5, thread)
    done: list[Operation] = []
    for _ in range(2):
        buffers = [
            Buffer(i, mode == "vector" or (mode == "mixed" and i % 2 == 0), random.octave(40, 3000)) for i in range(7)
        ]
        for group in [[buffer] for buffer in buffers] if apart else [buffers]:
            while not all(buffer.full for buffer in group):
                for buffer in group:
                    if not buffer.full:
                        buffer.append(random, growth, shrink, done)
        done += [free(i) for i in range(7)]
    return done


@pytest.mark.parametrize("mode", ["vector", "string", "mixed"])
@pytest.mark.parametrize("threads, growth, apart, shrink", [
    (1, 200, False, False), (3, 101, True, True), (2, 150, False, True),
])
def test_operations_are_those_of_the_model(
    tmp_path: Path, mode: str, threads: int, growth: int, apart: bool, shrink: bool
) -> None:
    given = (f"-n {threads} -r 5 --mode {mode} --buffers 7 --rounds 2 --min-size 40 --max-size 3000 --piece 30 "
             f"--growth {growth} --order {'apart' if apart else 'together'}").split()
    log = logged(tmp_path, "realloc_growth", *given, *["--shrink"] * shrink)
    assert log == {t: model(t, mode, growth, apart, shrink) for t in range(threads)}


def test_a_heap_that_always_moves_moves_all() -> None:
    result = measure("realloc_growth", preload=places.native("libledger.so"))
    assert metric(result, "moved") == 1
    assert 0 < metric(measure("realloc_growth"), "moved") < 1


def test_live_bytes_are_what_is_allocated_not_what_is_used() -> None:
    """One vector that doubles from 64 bytes to 4 MiB for a length of one byte more than the half."""
    result = measure("realloc_growth", *"--mode vector --buffers 1 --rounds 400 --min-size 2097153 --max-size 2097153 "
                     "--sample-period 1".split())
    assert max(result["series"]["live"]) == 4 << 20


def test_growth_is_growth() -> None:
    done = run("realloc_growth", "--growth", "100")
    assert done.returncode == 2 and "option --growth must be a whole number from 101 to 1000, not '100'" in done.stderr

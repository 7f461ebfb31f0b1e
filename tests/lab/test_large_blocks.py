# SPDX-License-Identifier: Apache-2.0
"""large_blocks: a new block replaces an old one after it was made, of the size the law gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from heapyard.model import places
from mutator_runs import Operation, Random, free, logged, malloc, measure, metric, run


def model(thread: int, seed: int, slots: int, steps: int, law: str, low: int, high: int) -> list[Operation]:
    random = Random(seed, thread)
    held: set[int] = set()
    done = []
    for _ in range(steps):
        slot = random.below(slots)
        done.append(malloc(slot, random.octave(low, high) if law == "log" else random.between(low, high)))
        if slot in held:
            done.append(free(slot))
        held.add(slot)
    return done + [free(slot) for slot in sorted(held)]


@pytest.mark.parametrize("threads, slots, steps, low, high", [(1, 20, 60, 1024, 2**22), (3, 2, 20, 5000, 5000)])
@pytest.mark.parametrize("law", ["log", "even"])
@pytest.mark.parametrize("write", ["ends", "pages", "all"])
def test_operations_are_those_of_the_model(
    tmp_path: Path, threads: int, slots: int, steps: int, low: int, high: int, law: str, write: str
) -> None:
    given = (f"-n {threads} -r 2 --slots {slots} --steps {steps} --min-size {low} --max-size {high} --sizes {law} "
             f"--write {write}").split()
    expected = {t: model(t, 2, slots, steps, law, low, high) for t in range(threads)}
    assert logged(tmp_path, "large_blocks", *given) == expected


@pytest.mark.parametrize("write, steps, pages", [("ends", 2000, 2), ("pages", 60, 256), ("all", 60, 256)])
def test_what_is_written_is_resident(write: str, steps: int, pages: int) -> None:
    """Under a heap that never frees, in blocks of a mebibyte: two pages of each, or every page."""
    result = measure("large_blocks", *f"--min-size 1M --max-size 1M --steps {steps} --write {write}".split(),
                     preload=places.native("libbump.so"))
    assert metric(result, "heap_peak") == pytest.approx(steps * pages * 4096, rel=0.05)


def test_sizes_have_a_range() -> None:
    done = run("large_blocks", "--min-size", "2M", "--max-size", "1M")
    assert done.returncode == 2 and "the minimum size 2097152 is larger than the maximum size 1048576" in done.stderr

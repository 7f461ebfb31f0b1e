# SPDX-License-Identifier: Apache-2.0
"""pairs: up and down by depth, and random replacement under the law of inverse squares."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutator_runs import Operation, Random, free, logged, malloc, measure

DRAWN = 4096


def rounds(objects: int, depth: int, size: int) -> list[Operation]:
    half = depth // 2
    order = [*range(half), *reversed(range(half, depth))]
    return max(1, objects // depth) * ([malloc(i, size) for i in range(depth)] + [free(i) for i in order])


@pytest.mark.parametrize("threads, objects, size", [(1, 1700, 16), (2, 50, 1)])
def test_all_depths_are_the_model(tmp_path: Path, threads: int, objects: int, size: int) -> None:
    expected = [call for depth in (25, 100, 400, 1600) for call in rounds(objects, depth, size)]
    given = f"-n {threads} -o {objects} -s {size}".split()
    assert logged(tmp_path, "pairs", *given) == dict.fromkeys(range(threads), expected)


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_one_depth_is_the_model(tmp_path: Path, depth: int) -> None:
    assert logged(tmp_path, "pairs", *f"-o 20 --depth {depth}".split())[0] == rounds(20, depth, 16)


def inverse_square(low: int, high: int, uniform: int) -> int:
    """With F(s) = (1 - low/s) / (1 - low/high), the s where F is uniform / 2^32."""
    return low * high * 2**32 // (high * 2**32 - uniform * (high - low))


@pytest.mark.parametrize("threads, slots, objects, low, high", [(1, 10, 60, 4, 32768), (3, 5000, 9000, 100, 100)])
def test_random_replacement_is_the_model(
    tmp_path: Path, threads: int, slots: int, objects: int, low: int, high: int
) -> None:
    given = f"--mode random -n {threads} -r 8 -o {objects} --slots {slots} --min-size {low} --max-size {high}".split()
    log = logged(tmp_path, "pairs", *given)
    for t in range(threads):
        random = Random(8, t)
        sizes = [inverse_square(low, high, random.next() >> 32) for _ in range(DRAWN)]
        done = [malloc(i, sizes[i % DRAWN]) for i in range(slots)]
        for step in range(objects):
            slot = random.below(slots)
            done += [free(slot), malloc(slot, sizes[step % DRAWN])]
        assert log[t] == done + [free(i) for i in range(slots)]


def test_small_sizes_are_many_and_large_ones_few() -> None:
    """Of a density of 1 / s^2 on [4, 32768], the median is just below 8 and the mean 4 ln(8192), about 36."""
    sizes = [inverse_square(4, 32768, i << 16) for i in range(2**16)]
    assert min(sizes) == 4 and max(sizes) <= 32768 and sorted(sizes)[2**15] == 7
    counts = measure("pairs", "--mode", "random", "-o", str(DRAWN))["counts"]
    # The standard deviation of a size is 360, so that of a mean of 4,096 is 5.6; and sizes are rounded down.
    assert counts["bytes"] / counts["allocations"] == pytest.approx(35.5, abs=4 * 5.6)


@pytest.mark.parametrize("words, wanted", [("32", {"size": 32}), ("--mode random 3", {"threads": 3})])
def test_the_number_of_each_original(words: str, wanted: dict[str, int]) -> None:
    parameters = measure("pairs", *words.split(), "-o", "100")["parameters"]
    assert parameters | wanted == parameters

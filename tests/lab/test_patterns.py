# SPDX-License-Identifier: Apache-2.0
"""patterns: the operations of all 28 patterns are those of a slow model, written from the report's figure and notation."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutator_runs import Operation, Random, free, logged, malloc, measure, metric, run, share

ALL = (
    "fifo:13 fifo:111 lifo:13 lifo:111 alt:7,17 alt:17,176 alt:93,192 m8:1-N/128 m8:67-N/128 m10:1-N/128 m10:67-N/128 "
    "m12:1-N/128 m12:67-N/128 m14:1-N/128 m14:67-N/128 m16:1-N/128 m16:67-N/128 m18:1-N/128 m18:67-N/128 r:1-63 "
    "r:64-2023 r:1024-2048 r:1000 r:700-1000 ma:1-250 mb:1-90 mb:1-10000 mb:1-20000"
).split()
BLOCKS = 1500


def shuffled(count: int, random: Random) -> list[int]:
    order = list(range(count))
    for i in range(count - 1):
        j = random.between(i, count - 1)
        order[i], order[j] = order[j], order[i]
    return order


def figure4(group: str, rest: str, count: int, random: Random) -> list[Operation]:
    """Sizes that rise every 256 blocks, half of them released, the holes filled with sizes that rise every 128, the end."""
    low, _, end = rest.partition("-")
    wrap = int(end) if group in ("ma", "mb") else 10**9

    def size(i: int, every: int) -> int:
        return max(1, 8 * ((int(low) + (1 + i) // every) % wrap))

    indices = range(count)
    ends = [i for pair in zip(indices, reversed(indices), strict=True) for i in pair][:count]
    runs = [i for i in indices if i // 256 % 2 == 0] + [i for i in indices if i // 256 % 2 == 1]
    stride = [i for first in range(4) for i in indices if i % 4 == first]
    even = [i for i in indices if i % 2 == 0]
    half, last = {
        "m8": lambda: (even, stride),
        "m10": lambda: (even[::-1], list(reversed(indices))),
        "m12": lambda: (list(indices), list(indices)),
        "m14": lambda: (runs, runs),
        "m16": lambda: (shuffled(count, random), shuffled(count, random)),
        "m18": lambda: (ends, list(indices)),
        "ma": lambda: ([count - 2 - i for i in even], stride),
        "mb": lambda: (even, list(reversed(indices))),
    }[group]()
    half = half[: count // 2]
    return [
        *(malloc(i, size(i, 256)) for i in indices),
        *(free(i) for i in half),
        *(malloc(i, size(i, 128)) for i in sorted(half)),
        *(free(i) for i in last),
    ]


def model(pattern: str, count: int, random: Random, *, lifo: bool = False, replace: bool = False) -> list[Operation]:
    group, _, rest = pattern.partition(":")
    if group in ("fifo", "lifo"):
        order = list(range(count))[:: 1 if group == "fifo" else -1]
        return [*(malloc(i, 8 * int(rest)) for i in range(count)), *map(free, order)]
    if group == "alt":
        sizes = [8 * int(size) for size in rest.split(",")]
        made = [malloc(i, sizes[i % 2]) for i in range(count)]
        halves = [list(range(first, count, 2))[:: -1 if lifo else 1] for first in (0, 1)]
        return made + [free(i) for half in halves for i in half]
    if group == "r":
        low, _, high = rest.partition("-")

        def draw() -> int:
            return 8 * random.between(int(low), int(high or low))

        operations = [malloc(i, draw()) for i in range(count)]
        for _ in range(count if replace else 0):
            slot = random.below(count)
            operations += [free(slot), malloc(slot, draw())]
        return operations + [free(i) for i in shuffled(count, random)]
    return figure4(group, rest, count, random)


@pytest.mark.parametrize("pattern", ALL)
@pytest.mark.parametrize("threads", [1, 3])
def test_operations_are_those_of_the_model(tmp_path: Path, pattern: str, threads: int) -> None:
    log = logged(tmp_path, "patterns", pattern, "--blocks", str(BLOCKS), "-n", str(threads), "--seed", "5")
    assert log == {
        t: model(pattern, share(BLOCKS, threads, t) // 4 * 4, Random(5, t)) for t in range(threads)
    }


@pytest.mark.parametrize(("pattern", "option"), [("alt:7,17", "lifo"), ("r:1-63", "replace")])
def test_variants_are_those_of_the_model(tmp_path: Path, pattern: str, option: str) -> None:
    log = logged(tmp_path, "patterns", pattern, "--blocks", "400", f"--{option}")
    assert log == {0: model(pattern, 400, Random(1, 0), **{option: True})}


def test_the_report_s_patterns_are_listed_and_known_by_number(tmp_path: Path) -> None:
    listed = run("patterns", "--list").stdout.split()
    assert listed == [word for number, pattern in enumerate(ALL, 1) for word in (str(number), pattern)]
    for number, pattern in enumerate(ALL, 1):
        by_number = logged(tmp_path, "patterns", str(number), "--blocks", "300")
        assert by_number == logged(tmp_path, "patterns", "--pattern", pattern, "--blocks", "300")


@pytest.mark.parametrize("pattern", ALL)
def test_the_footprint_is_what_was_asked_for(pattern: str) -> None:
    result = measure("patterns", pattern, "--footprint", "8M", "--sample-period", "1", "--verify")
    first = sum(o.size for o in model(pattern, blocks(result), Random(1, 0)) if o.call == "malloc" and o.size)
    assert result["counts"]["malloc_calls"] == result["counts"]["free_calls"]
    assert first >= 0.9 * 8 * 2**20
    assert metric(result, "heap_peak") >= 8 * 2**20 * 0.9


def blocks(result: dict) -> int:
    """Blocks of the first phase; those with a middle allocate half as many again."""
    calls = result["counts"]["malloc_calls"]
    return calls * 2 // 3 if result["parameters"]["pattern"][0] == "m" else calls


@pytest.mark.parametrize("pattern", ["fifo", "fifo:", "fifo:x", "alt:7", "m9:1-N/128", "m8:1-5", "r:9-3", "ma:1-0", "0", "29",
                                     "fifo:13x", "r:1-99999999", "-5"])
def test_what_is_no_pattern_is_refused_in_one_sentence(pattern: str) -> None:
    done = run("patterns", "--", pattern)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and f"'{pattern}'" in done.stderr


def test_replacing_is_for_random_sizes() -> None:
    done = run("patterns", "fifo:13", "--replace")
    assert done.returncode == 2 and "--replace is for patterns r, not for fifo:13" in done.stderr

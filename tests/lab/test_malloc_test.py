# SPDX-License-Identifier: Apache-2.0
"""malloc_test: pairs, rows and chains of objects of one size are those of the specification."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutator_runs import Operation, Random, free, logged, malloc, measure, metric, run


@pytest.mark.parametrize("threads, iterations, size", [(1, 30, 512), (3, 7, 1)])
def test_pairs_and_rows_are_the_model(tmp_path: Path, threads: int, iterations: int, size: int) -> None:
    given = f"-n {threads} -i {iterations} -s {size} --mode".split()
    pairs = [call for i in range(iterations) for call in (malloc(i, size), free(i))]
    rows = [malloc(i, size) for i in range(iterations)] + [free(i) for i in range(iterations)]
    assert logged(tmp_path, "malloc_test", *given, "pairs") == dict.fromkeys(range(threads), pairs)
    assert logged(tmp_path, "malloc_test", *given, "rows", "--write") == dict.fromkeys(range(threads), rows)


@pytest.mark.parametrize("threads, objects, generations", [(1, 20, 1), (3, 11, 4)])
def test_chains_are_the_model(tmp_path: Path, threads: int, objects: int, generations: int) -> None:
    done: dict[int, list[Operation]] = {t: [] for t in range(threads)}
    done[0] = [malloc(i, 40) for i in range(threads * objects)]
    for t in range(threads):
        random = Random(3, t)
        for _ in range(generations * objects):
            at = t * objects + random.below(objects)
            done[t] += [free(at), malloc(at, 40)]
        done[t] += [free(t * objects + i) for i in range(objects)]
    given = f"--mode chain -n {threads} -r 3 -o {objects} -g {generations} -s 40".split()
    assert logged(tmp_path, "malloc_test", *given) == done


def test_the_three_numbers_of_the_original() -> None:
    parameters = measure("malloc_test", "64", "100", "2")["parameters"]
    assert (parameters["size"], parameters["iterations"], parameters["threads"]) == (64, 100, 2)


def test_the_spread_of_the_threads_is_told() -> None:
    result = measure("malloc_test", "-n", "3", "-i", "10000")
    times = [t["running_ms"] for t in result["per_thread"]]
    mean = sum(times) / 3
    assert metric(result, "thread_time_mean") == pytest.approx(mean)
    deviation = (sum((t - mean) ** 2 for t in times) / 2) ** 0.5
    assert metric(result, "thread_time_deviation") == pytest.approx(deviation, rel=1e-6)
    assert metric(measure("malloc_test", "-i", "10"), "thread_time_deviation") == 0


def test_rows_have_a_limit_that_is_told() -> None:
    done = run("malloc_test", "--mode", "rows", "-i", "1000000001")
    assert done.returncode == 2
    assert "--mode rows holds at most 1000000000 objects a thread, not 1000000001" in done.stderr

# SPDX-License-Identifier: Apache-2.0
"""threadtest: its operations are those of the specification, its options those of the original and of the artifact."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutator_runs import Operation, logged, measure, share


def model(threads: int, iterations: int, objects: int, size: int) -> dict[int, list[Operation]]:
    made = {t: share(objects, threads, t) for t in range(threads)}
    return {
        t: iterations * ([Operation("malloc", i, size) for i in range(n)] + [Operation("free", i, 0) for i in range(n)])
        for t, n in made.items() if n
    }


@pytest.mark.parametrize("threads, iterations, objects, size", [(1, 3, 10, 64), (3, 2, 11, 1), (8, 1, 5, 4096)])
def test_operations_are_those_of_the_model(tmp_path: Path, threads: int, iterations: int, objects: int, size: int) -> None:
    given = f"-n {threads} -i {iterations} -o {objects} -s {size}".split()
    assert logged(tmp_path, "threadtest", *given) == model(threads, iterations, objects, size)


@pytest.mark.parametrize("words", ["2 3 100 5 8", "2 3_100_5_8", "-n 2 3_100_5_8", "-n 2 -i 3 -o 100 -w 5 -s 64"])
def test_published_forms_mean_the_same(words: str) -> None:
    parameters = measure("threadtest", *words.split())["parameters"]
    del parameters["seed"], parameters["latency"]
    assert parameters == {"threads": 2, "iterations": 3, "objects": 100, "work": 5, "size": 64}


def test_no_object_is_lost_when_threads_do_not_divide_them() -> None:
    # The original drops the remainder: 39 threads do less than 40.
    assert measure("threadtest", "39", "2_1000_0_1")["counts"]["allocations"] == 2000

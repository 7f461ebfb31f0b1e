# SPDX-License-Identifier: Apache-2.0
"""larson: its operations are those of the specification, objects outlive the threads that made them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from heapyard.model import places
from mutator_runs import Operation, Random, logged, measure, metric, run

WARM_UP = 2**32


def model(
    threads: int, seed: int, low: int, high: int, chunks: int, rounds: int, generations: int
) -> dict[int, list[Operation]]:
    done: dict[int, list[Operation]] = {t: [] for t in range(threads)}
    everything = threads * chunks
    random = Random(seed, WARM_UP)

    def replace(thread: int, slot: int, random: Random) -> None:
        done[thread] += [Operation("free", slot, 0), Operation("malloc", slot, random.between(low, high))]

    done[0] += [Operation("malloc", slot, random.between(low, high)) for slot in range(everything)]
    for i in reversed(range(1, everything)):
        random.below(i + 1)  # a permutation of the objects shows in their addresses alone
    for _ in range(4 * everything):
        replace(0, random.below(everything), random)
    for t in range(threads):
        random = Random(seed, t)
        for _ in range(generations * rounds * chunks):
            replace(t, t * chunks + random.below(chunks), random)
        done[t] += [Operation("free", t * chunks + i, 0) for i in range(chunks)]
    return done


@pytest.mark.parametrize("threads, seed, low, high, chunks, rounds, generations", [
    (1, 1, 8, 100, 20, 3, 2), (3, 7, 10, 10, 11, 2, 3), (2, 2**62, 1, 5000, 1, 5, 4),
])
def test_operations_are_those_of_the_model(
    tmp_path: Path, threads: int, seed: int, low: int, high: int, chunks: int, rounds: int, generations: int
) -> None:
    given = (f"-n {threads} -r {seed} --min-size {low} --max-size {high} -c {chunks} --rounds {rounds} "
             f"-g {generations}").split()
    assert logged(tmp_path, "larson", *given) == model(threads, seed, low, high, chunks, rounds, generations)


def test_the_seven_numbers_of_the_original() -> None:
    for words in ("0 7 8 10 20 4141 2", "0_7_8_10_20_4141 2"):
        parameters = measure("larson", *words.split())["parameters"]
        # The original's upper bound is exclusive: "7 8" asks for 7 bytes, always.
        assert (parameters["min_size"], parameters["max_size"]) == (7, 7)
        assert (parameters["chunks"], parameters["rounds"], parameters["threads"]) == (10, 20, 2)
        assert (parameters["seed"], parameters["seconds"]) == (4141, 0)


def test_a_run_for_a_time_ends_and_has_the_checksum_of_its_warm_up() -> None:
    results = [measure("larson", "1", "8", "100", "50", "10", "3", "2") for _ in range(2)]
    assert results[0]["checksum"] == results[1]["checksum"]
    assert all(metric(r, "wall_time") >= 1000 and r["counts"]["malloc_calls"] == r["counts"]["free_calls"] for r in results)


def test_a_generation_more_asks_the_heap_for_nothing_but_its_objects() -> None:
    """Stacks of ended threads are used again; the original leaves one behind for each thread that ever was."""

    def calls_beyond_objects(generations: int) -> int:
        done = run("larson", "-n", "2", "-c", "100", "--rounds", "2", "-g", str(generations), "--format", "none",
                   "--json", "-", preload=places.native("libcounts.so"))
        return int(done.stderr) - json.loads(done.stdout)["counts"]["malloc_calls"]

    # The C library makes a table for each stack: at most one for each of the two threads at work.
    assert abs(calls_beyond_objects(5) - calls_beyond_objects(100)) <= 2

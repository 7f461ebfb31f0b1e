# SPDX-License-Identifier: Apache-2.0
"""factorial: the program of the factorial study allocates, zeroes and releases what its description says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from heapyard.catalog.allocators import find_allocators
from heapyard.model import places
from mutator_runs import Operation, Random, free, logged, malloc, measure, metric, run, share


def model(
    thread: int, threads: int, seed: int, allocations: int, low: int, high: int, half: str, neighbour: bool, again: bool
) -> list[Operation]:
    class Plan:
        def __init__(self, thread: int) -> None:
            random = Random(seed, thread)
            n = share(allocations, threads, thread)
            self.sizes = [random.between(low, high) for _ in range(n)]
            order = list(range(n))
            if half == "random":
                for k in range(n // 2):
                    other = random.between(k, n - 1)
                    order[k], order[other] = order[other], order[k]
            self.released = list(range(0, 2 * (n // 2), 2)) if half == "alternate" else order[: n // 2]
            self.anew = [random.between(low, high) for _ in self.released] if again else []

    own = Plan(thread)
    victim = Plan((thread + 1) % threads) if neighbour else own
    done = [malloc(i, size) for i, size in enumerate(own.sizes)]
    done += [free(i) for i in victim.released]
    done += [malloc(i, size) for i, size in zip(own.released, own.anew, strict=bool(again))]
    left = set(range(len(own.sizes))) - (set() if again else set(own.released))
    return done + [free(i) for i in sorted(left)]


@pytest.mark.parametrize("threads, allocations, low, high", [(1, 101, 16, 64), (3, 100, 256, 1024), (4, 5, 1, 1)])
@pytest.mark.parametrize("half", ["first", "alternate", "random"])
@pytest.mark.parametrize("neighbour, again, zero", [(False, False, "each"), (True, True, "later")])
def test_operations_are_those_of_the_model(
    tmp_path: Path, threads: int, allocations: int, low: int, high: int, half: str, neighbour: bool, again: bool,
    zero: str,
) -> None:
    given = (f"-n {threads} -r 9 -a {allocations} --min-size {low} --max-size {high} --release {half} "
             f"--zero {zero}").split()
    given += ["--releaser", "neighbour"] * neighbour + ["--again"] * again
    log = logged(tmp_path, "factorial", *given)
    for t in range(threads):
        assert log[t] == model(t, threads, 9, allocations, low, high, half, neighbour, again)


def test_each_factor_of_the_study_by_its_place() -> None:
    parameters = measure("factorial", "1000", "256", "1024", "3", "1", "7")["parameters"]
    assert parameters | {
        "allocations": 1000, "min_size": 256, "max_size": 1024, "threads": 3, "processors": 1, "seed": 7,
    } == parameters


def test_a_remainder_is_dealt_out() -> None:
    result = measure("factorial", "-n", "3", "-a", "500000")  # which 3 does not divide
    assert [t["allocations"] for t in result["per_thread"]] == [166667, 166667, 166666]
    assert [t["releases"] for t in result["per_thread"]] == [83333, 83333, 83333]


def test_processors_are_chosen_and_no_more_than_there_are() -> None:
    everything = len(os.sched_getaffinity(0))
    assert measure("factorial", "-a", "10")["counts"]["processors"] == everything
    counts = measure("factorial", "-a", "10", "-n", "2", "-p", "1")["counts"]
    assert counts["processors"] == counts["cores"] == 1
    done = run("factorial", "-p", str(everything + 1))
    assert done.returncode == 2 and done.stderr == (
        f"factorial: option --processors (-p) asks for {everything + 1} processors, but the program may use "
        f"{everything}\n"
    )


def test_space_is_what_was_asked_for_where_nothing_is_given_back() -> None:
    """A heap that never frees is its own proof: what was filled, and as much again after the release."""
    result = measure("factorial", "-a", "20000", "--min-size", "1024", "--max-size", "1024", "--again", "--settle", "1",
                     preload=places.native("libbump.so"))
    asked = 20_000 * 1024
    for name, bytes_, live in (("filled", asked, asked), ("released", asked, asked / 2), ("settled", asked, asked / 2),
                               ("refilled", 1.5 * asked, asked)):
        assert metric(result, f"space_{name}") == pytest.approx(bytes_, rel=0.02)
        assert metric(result, f"overhead_{name}") == pytest.approx(bytes_ / live, rel=0.02)


def test_a_heap_that_returns_memory_holds_less_after_the_release() -> None:
    glibc = find_allocators(["glibc"])[0]
    # Every block is a mapping of its own, which free gives back.
    mapped = {**glibc.env, "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4096"}
    result = measure("factorial", "-a", "2000", "--min-size", "16384", "--max-size", "16384", env=mapped)
    assert metric(result, "space_released") == pytest.approx(metric(result, "space_filled") / 2, rel=0.05)


def test_a_time_for_each_phase_that_takes_place() -> None:
    result = measure("factorial", "-n", "2", "-a", "20000", "--zero", "later", "--again", "--settle", "50")
    phases = [metric(result, name) for name in ("allocation_time", "zero_time", "release_time", "reuse_time")]
    assert all(phase > 0 for phase in phases)
    assert metric(result, "execution_time") == pytest.approx(sum(phases))
    assert metric(result, "execution_time") <= metric(result, "wall_time") - 50  # waiting is not work
    plain = {m["name"] for m in measure("factorial", "-a", "100")["metrics"]}
    assert not plain & {"zero_time", "reuse_time", "space_settled", "space_refilled"}


def test_the_filled_objects_hold_zeros() -> None:
    """A heap that fills what it hands out with other bytes makes no difference; one that changes them later does."""
    ledger = places.native("libledger.so")
    for options in (["--zero", "each"], ["--zero", "later"], ["--zero", "later", "--again"]):
        words = ("factorial", "-a", "500", *options)
        zeroed = measure(*words, preload=places.native("libbump.so"))  # new pages: zeros whoever writes them
        assert measure(*words, preload=ledger)["checksum"] == zeroed["checksum"]
    damaged = measure("factorial", "-a", "500", preload=ledger, env={"HEAPYARD_TEST_SMUDGE": "1"})
    assert damaged["checksum"] != measure("factorial", "-a", "500")["checksum"]

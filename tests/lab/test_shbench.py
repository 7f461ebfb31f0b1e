# SPDX-License-Identifier: Apache-2.0
"""shbench: sizes, slots, survivors and order of release are those of the specification's prose."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutator_runs import Operation, Random, logged, measure, share

SH8 = [(8, 1000), (16, 5000), (48, 1000), (72, 100), (148, 100), (200, 100), (520, 10), (1056, 5), (4096, 3),
       (9162, 1), (34562, 1), (168524, 1)]
FOREIGN = 2**40


def sh6_sweep(low: int, high: int) -> list[tuple[int, int]]:
    """Runs of (size, how many in a row) of one sweep."""
    bases = [low]
    while bases[-1] * 3 // 2 + 1 < high:
        bases.append(bases[-1] * 3 // 2 + 1)
    runs = []
    for base in bases:
        while base >= low and base:
            runs.append((base, 250 if base < 100 else 50 if base < 1000 else 10 if base < 10000 else 1))
            base //= 2
    return runs


def fill(sizes: list[int], slots: int, survivors: int) -> list[Operation]:
    """The operations of one thread that puts objects of these sizes into a buffer of slots, and empties it."""
    window = slots * survivors // 100
    starts = [k * window for k in range(slots // window)] if window else [0]
    held: set[int] = set()
    saved: range = range(0)
    turns = 0
    done = []
    pending = list(range(slots))
    for size in sizes:
        slot = pending.pop(0)
        done.append(Operation("malloc", slot, size))
        held.add(slot)
        if not pending:
            assert held == set(range(slots))
            saved = range(starts[turns % len(starts)], starts[turns % len(starts)] + window)
            turns += 1
            gone = [s for s in range(slots) if s < saved.start] + [s for s in reversed(range(slots)) if s >= saved.stop]
            done += [Operation("free", s, 0) for s in gone]
            held = set(saved)
            pending = [s for s in range(slots) if s not in saved]
    return done + [Operation("free", s, 0) for s in sorted(held)]


def sizes_of(runs: list[tuple[int, int]]) -> list[int]:
    return [size for size, count in runs for _ in range(count)]


@pytest.mark.parametrize("threads, slots, sweeps, low, high, survivors", [
    (1, 2000, 3, 1, 8, 20), (3, 1003, 4, 1, 8, 20), (1, 997, 2, 10, 60, 33), (2, 100, 2, 1, 8, 0), (1, 3, 1, 5, 5, 20),
    (1, 4000, 2, 300, 20000, 50),
])
def test_sh6_operations_are_those_of_the_model(
    tmp_path: Path, threads: int, slots: int, sweeps: int, low: int, high: int, survivors: int
) -> None:
    given = (f"-n {threads} --slots {slots} --sweeps {sweeps} --min-size {low} --max-size {high} "
             f"--survivors {survivors}").split()
    sweep = sizes_of(sh6_sweep(low, high))
    expected = {t: fill(sweep * share(sweeps, threads, t), share(slots, threads, t), survivors) for t in range(threads)}
    assert logged(tmp_path, "shbench", *given) == expected


def test_sh8_operations_are_those_of_the_model(tmp_path: Path) -> None:
    threads, slots, runs, foreign = 2, 4001, 51, 777
    given = f"--variant sh8 -n {threads} --slots {slots} --sweeps {runs} --foreign {foreign}".split()
    threads_logged = logged(tmp_path, "shbench", *given)
    assert threads_logged.pop(0) == [Operation("malloc", FOREIGN + i, 8) for i in range(foreign)]
    for t in range(threads):
        mine = threads_logged[t + 1]
        sizes = sizes_of([SH8[i % len(SH8)] for i in range(share(runs, threads, t))])
        assert [o for o in mine if o.object < FOREIGN] == fill(sizes, share(slots, threads, t), 20)
        received = [o for o in mine if o.object >= FOREIGN]
        assert received == [Operation("free", FOREIGN + i, 0) for i in range(foreign) if i % threads == t]


def test_a_random_order_draws_from_the_same_sizes(tmp_path: Path) -> None:
    runs = sh6_sweep(1, 200)
    drawn = [o.size for o in logged(
        tmp_path, "shbench", *"--order random -r 9 --slots 500 --sweeps 1 --min-size 1 --max-size 200".split()
    )[0] if o.call == "malloc"]
    random, cumulative = Random(9, 0), sizes_of(runs)
    assert drawn == [cumulative[random.below(len(cumulative))] for _ in cumulative]


def test_the_artifacts_setting_is_what_the_specification_counts() -> None:
    """2,250 objects a sweep of 2.44 bytes on average; and not one of them is lost, where sh6bench loses 4.76 percent."""
    counts = measure("shbench", "-n", "2", "1000_1_8")["counts"]
    assert counts["allocations"] == 2250 * 1000
    assert counts["bytes"] / counts["allocations"] == pytest.approx(2.44, abs=0.01)
    assert counts["malloc_calls"] == counts["free_calls"]
    assert measure("shbench", "10", "1", "1000", "1")["counts"]["allocations"] == 19300 * 10

# SPDX-License-Identifier: Apache-2.0
"""producer_consumer: sizes, slots, batches and pipes are those of the specification."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutator_runs import Operation, Random, logged, measure, metric, run

TABLE = 2000
SIZES = 2**33
BATCHES = 2**62


def table(seed: int, law: str, low: int, high: int) -> list[int]:
    random = Random(seed, SIZES)
    even = [random.between(low, high) for _ in range(TABLE)]
    if law == "even":
        return even
    sizes = []
    for i in range(TABLE):
        w, v = (1 - (even[(i + k) % TABLE] - low) / (high - low) if high > low else 1.0 for k in (0, 1))
        factor = abs(w + v - 1) if law == "linear" else w * v
        sizes.append(low + int((even[(i + 2) % TABLE] - low) * factor))
    return sizes


class Maker:
    def __init__(self, sizes: list[int], random: Random, one_size: bool = False) -> None:
        self.sizes, self.one_size, self.made = sizes, one_size, 0
        self.at = random.below(TABLE)

    def make(self, number: int) -> Operation:
        size = self.sizes[self.at % TABLE]
        self.at += not self.one_size
        call = "malloc"
        if size < 4096:
            call = "aligned" if self.made % 3 else "malloc"
            self.made += 1
        return Operation(call, number, size)


def strides(slots: int) -> tuple[int, int]:
    primes = [p for p in range(7, 110) if all(p % d for d in range(2, p)) and slots % p]
    return primes[0], primes[1]


def exchange(
    thread: int, threads: int, seed: int, sizes: list[int], rounds: int, loops: int, slots: int, operations: int, cross: int
) -> list[Operation]:
    """What a thread does by itself; the batches it receives come in the order of the schedule."""
    random = Random(seed, thread)
    maker = Maker(sizes, random)
    done: list[Operation] = []
    held: set[int] = set()
    release_stride, fill_stride = strides(slots)
    release_at = fill_at = 0
    number = BATCHES + (thread << 44)

    def release(slot: int) -> None:
        if slot in held:
            held.remove(slot)
            done.append(Operation("free", slot, 0))

    for _ in range(rounds):
        for loop in range(1, loops + 1):
            releases = operations * random.between(30, 99) // 100 * 4 // 5
            fills = operations * random.between(30, 99) // 100
            for _ in range(releases):
                release(release_at)
                release_at = (release_at + release_stride) % slots
            for _ in range(fills):
                release(fill_at)
                done.append(maker.make(fill_at))
                held.add(fill_at)
                fill_at = (fill_at + fill_stride) % slots
            if cross and threads > 1 and loop % cross == 0:
                done.append(Operation("malloc", number, 24 + 8 * fills))
                done += [maker.make(number + 1 + i) for i in range(fills)]
                number += fills + 1
        for slot in range(slots):
            release(slot)
    return done


@pytest.mark.parametrize("threads, law, cross, slots, in_flight", [
    (1, "even", 2, 100, 16), (2, "linear", 1, 77, 1), (4, "exp", 3, 11 * 7, 0), (3, "even", 0, 50, 16), (8, "even", 1, 9, 1),
])
def test_exchange_is_the_model(
    tmp_path: Path, threads: int, law: str, cross: int, slots: int, in_flight: int
) -> None:
    given = (f"-n {threads} -r 5 --sizes {law} --min-size 8 --max-size 9000 --rounds 2 --loops 7 -b {slots} -o 40 "
             f"-x {cross} --in-flight {in_flight}").split()
    log = logged(tmp_path, "producer_consumer", *given)
    sizes = table(5, law, 8, 9000)
    sent, received = [], []
    for t in range(threads):
        own = [o for o in log[t] if o.call != "free" or o.object < BATCHES]
        assert own == exchange(t, threads, 5, sizes, 2, 7, slots, 40, cross)
        sent += [o.object for o in own if o.object >= BATCHES]
        foreign = [o.object for o in log[t] if o.call == "free" and o.object >= BATCHES]
        assert not any((number - BATCHES) >> 44 == t for number in foreign)  # never to itself
        received += foreign
    assert sorted(sent) == sorted(received)
    assert bool(sent) == (cross > 0 and threads > 1)


@pytest.mark.parametrize("mode, threads, ring", [("ring", 1, 4), ("ring", 3, 1), ("pair", 4, 64)])
@pytest.mark.parametrize("one_size", [False, True])
def test_pipes_deliver_each_object_once_and_in_order(
    tmp_path: Path, mode: str, threads: int, ring: int, one_size: bool
) -> None:
    given = f"--mode {mode} -n {threads} --ring {ring} --objects 300 --min-size 100 --max-size 200".split()
    log = logged(tmp_path, "producer_consumer", *given, *["--one-size"] * one_size)
    sizes = table(1, "even", 100, 200)
    for t in range(threads):
        produces, consumes = (True, True) if mode == "ring" else (t % 2 == 0, t % 2 == 1)
        maker = Maker(sizes, Random(1, t), one_size)
        made = [maker.make((t << 44) + i) for i in range(300)] if produces else []
        assert [o for o in log[t] if o.call != "free"] == made
        source = (t - 1) % threads
        taken = [Operation("free", (source << 44) + i, 0) for i in range(300)] if consumes else []
        assert [o for o in log[t] if o.call == "free"] == taken


@pytest.mark.parametrize("law, mean", [("even", 1 / 2), ("linear", 1 / 2 * 1 / 3), ("exp", 1 / 2 * 1 / 4)])
def test_the_laws_have_their_means(law: str, mean: float) -> None:
    """With u, v, w uniform: E[u] = 1/2, E[w |u + v - 1|] = 1/6, E[w u v] = 1/8, of a table of 2,000 draws."""
    counts = measure("producer_consumer", "--mode", "ring", "--objects", "2000", "--sizes", law, "--min-size", "1000",
                     "--max-size", "101000")["counts"]
    assert counts["bytes"] / 2000 == pytest.approx(1000 + 100_000 * mean, abs=2500)  # over 3.8 standard errors


def test_the_nine_numbers_of_rpmalloc_benchmark() -> None:
    parameters = measure("producer_consumer", *"3 1 2 4 5 60 7 16 8000".split())["parameters"]
    assert parameters | {
        "threads": 3, "mode": "exchange", "sizes": "exp", "one_size": True, "min_size": 16, "max_size": 8000,
        "loops": 5, "blocks": 60, "operations": 7, "cross_rate": 4,
    } == parameters


def test_live_bytes_are_known_and_return_to_nothing() -> None:
    result = measure("producer_consumer", "-n", "3", "--loops", "200")
    assert result["series"]["live"][0] == result["series"]["live"][-1] == 0
    assert metric(result, "live_average") > 0


@pytest.mark.parametrize("options, sentence", [
    ("--ring 100 --mode ring", "option --ring must be a power of two, not 100"),
    ("--mode pair -n 3", "--mode pair needs an even number of threads, not 3"),
    ("--min-size 100 --max-size 99", "the minimum size 100 is larger than the maximum size 99"),
    ("--min-size 3", "option --min-size must be a whole number from 4 to"),
])
def test_what_cannot_be_is_said_in_one_sentence(options: str, sentence: str) -> None:
    done = run("producer_consumer", *options.split())
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and sentence in done.stderr

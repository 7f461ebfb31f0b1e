# SPDX-License-Identifier: Apache-2.0
"""xmalloc: producers fill batches, consumers empty them, nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from mutator_runs import Operation, Random, free, logged, malloc, measure, metric, run

SIZES = [8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048]


def batches(thread: int, seed: int, count: int, objects: int, size: int) -> list[list[Operation]]:
    random = Random(seed, thread)
    made = []
    for serial in range(count):
        number = (thread << 44) + serial * (objects + 1)
        sizes = [size if size > 0 else SIZES[random.below(len(SIZES))] for _ in range(objects)]
        made.append([malloc(number, 8 + 8 * objects)] + [malloc(number + 1 + i, s) for i, s in enumerate(sizes)])
    return made


def released(batch: list[Operation]) -> list[Operation]:
    """A consumer releases the objects in order, then the block of the batch."""
    return [free(made.object) for made in batch[1:] + batch[:1]]


@pytest.mark.parametrize("threads, producers, size, order", [
    (2, 1, 64, []), (4, 3, -1, []), (5, 1, -1, ["--last-first"]), (8, 0, 100, ["--last-first"]),
])
@pytest.mark.parametrize("waiting", [1, 50])
def test_each_batch_is_made_by_one_thread_and_released_by_one_other(
    tmp_path: Path, threads: int, producers: int, size: int, order: list[str], waiting: int
) -> None:
    given = f"-n {threads} --producers {producers} -r 4 -s {size} -o 10 -b 7 --waiting {waiting}".split()
    log = logged(tmp_path, "xmalloc", *given, *order)
    producers = producers or threads // 2
    everything = []
    for t in range(producers):
        made = batches(t, 4, 7, 10, size)
        assert log[t] == [call for batch in made for call in batch]
        everything += [tuple(released(batch)) for batch in made]
    taken = []
    for t in range(producers, threads):
        calls = log.get(t, [])
        assert len(calls) % 11 == 0
        taken += [tuple(calls[i : i + 11]) for i in range(0, len(calls), 11)]
    assert Counter(taken) == Counter(everything)


def test_first_come_first_served_unless_asked_otherwise(tmp_path: Path) -> None:
    """One producer, one consumer: in order; a thread alone takes each batch as soon as it is made."""
    log = logged(tmp_path, "xmalloc", *"-n 2 -o 3 -b 40 -s 8".split())
    assert log[1] == [call for batch in batches(0, 1, 40, 3, 8) for call in released(batch)]
    log = logged(tmp_path, "xmalloc", *"-n 1 -o 3 -b 5 -s 8".split())
    assert log[0] == [call for batch in batches(0, 1, 5, 3, 8) for call in batch + released(batch)]


def test_the_letters_of_the_original() -> None:
    result = measure("xmalloc", *"-w 2 -t 1 -s 64 -d -v".split())
    parameters = result["parameters"]
    assert (parameters["threads"], parameters["producers"], parameters["seconds"], parameters["size"]) == (4, 2, 1, 64)
    assert metric(result, "wall_time") >= 1000
    assert metric(result, "release_throughput") == pytest.approx(metric(result, "throughput") / 2)


@pytest.mark.parametrize("options, sentence", [
    ("-s 0", "option --size (-s) must be -1 or a size from 1 on, not 0"),
    ("-n 4 --producers 4", "option --producers needs fewer than the 4 threads, so that one is left to release"),
    ("5", "there is no argument for '5'"),
])
def test_what_cannot_be_is_said_in_one_sentence(options: str, sentence: str) -> None:
    done = run("xmalloc", *options.split())
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and sentence in done.stderr

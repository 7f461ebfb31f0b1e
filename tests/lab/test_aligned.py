# SPDX-License-Identifier: Apache-2.0
"""aligned: sizes, alignments and calls are those drawn, and what is not aligned as asked is found out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from heapyard.model import places
from mutator_runs import Operation, Random, free, logged, measure, run


def model(
    thread: int, call: str, slots: int, steps: int, low: int, high: int, first: int, last: int, plain: int
) -> list[Operation]:
    random = Random(1, thread)

    def make(slot: int) -> Operation:
        size = random.octave(low, high)
        if random.percent(plain):
            return Operation("malloc", slot, size)
        alignment = 2 ** random.between(first.bit_length() - 1, last.bit_length() - 1)
        if call == "aligned_alloc" or (call == "mixed" and random.below(2) == 1):
            size = -(-size // alignment) * alignment
        return Operation("aligned", slot, size)

    done = [make(slot) for slot in range(slots)]
    for _ in range(steps):
        slot = random.below(slots)
        done += [free(slot), make(slot)]
    return done + [free(slot) for slot in range(slots)]


@pytest.mark.parametrize("call", ["posix_memalign", "aligned_alloc", "mixed"])
@pytest.mark.parametrize("threads, slots, steps, low, high, first, last, plain", [
    (1, 30, 100, 8, 8192, 8, 4096, 25), (3, 4, 20, 1, 1, 64, 64, 0), (2, 4, 20, 1, 100, 8, 65536, 90),
])
def test_operations_are_those_of_the_model(
    tmp_path: Path, call: str, threads: int, slots: int, steps: int, low: int, high: int, first: int, last: int,
    plain: int,
) -> None:
    given = (f"-n {threads} --call {call} --slots {slots} --steps {steps} --min-size {low} --max-size {high} "
             f"--min-alignment {first} --max-alignment {last} --plain {plain}").split()
    expected = {t: model(t, call, slots, steps, low, high, first, last, plain) for t in range(threads)}
    assert logged(tmp_path, "aligned", *given) == expected


def test_an_alignment_that_is_not_kept_is_counted_and_changes_the_checksum() -> None:
    sound = measure("aligned", "--steps", "100")
    assert sound["counts"]["misaligned"] == 0
    assert measure("aligned", "--steps", "100", preload=places.native("libledger.so"))["checksum"] == sound["checksum"]
    done = run("aligned", "--steps", "100", "--json", "-", "--format", "none", preload=places.native("libcrooked.so"))
    crooked = json.loads(done.stdout)
    assert crooked["checksum"] != sound["checksum"]
    asked = 0.75 * crooked["counts"]["malloc_calls"]  # the others are plain
    misaligned = crooked["counts"]["misaligned"]
    assert misaligned > 0.6 * asked  # of ten alignments, malloc keeps two, others by chance
    assert done.stderr == f"aligned: {misaligned} blocks do not lie on the boundary asked for\n"


def test_alignments_are_part_of_the_checksum() -> None:
    options = ("--call", "posix_memalign", "--steps", "10", "--max-alignment")
    assert measure("aligned", *options, "64")["checksum"] != measure("aligned", *options, "128")["checksum"]


@pytest.mark.parametrize("options, sentence", [
    ("--min-alignment 48", "an alignment must be a power of two, not 48"),
    ("--min-alignment 4", "option --min-alignment must be a whole number from 8 to"),
    ("--min-alignment 64 --max-alignment 32", "the minimum alignment 64 is larger than the maximum alignment 32"),
])
def test_what_cannot_be_is_said_in_one_sentence(options: str, sentence: str) -> None:
    done = run("aligned", *options.split())
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and sentence in done.stderr

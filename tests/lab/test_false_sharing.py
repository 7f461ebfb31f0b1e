# SPDX-License-Identifier: Apache-2.0
"""false_sharing: its operations are those of the specification, its stores reach the objects, its lines are compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from heapyard.model import places
from mutator_runs import Operation, logged, measure, metric, run


def model(mode: str, threads: int, iterations: int, call: str, size: int) -> dict[int, list[Operation]]:
    done = {
        t: iterations * [Operation(call, threads + t, size), Operation("free", threads + t, 0)] for t in range(threads)
    }
    if mode == "passive":
        done = {t: [Operation("free", t, 0), *operations] for t, operations in done.items()}
        done[0] = [Operation(call, t, size) for t in range(threads)] + done[0]
    return done


@pytest.mark.parametrize("mode", ["active", "passive"])
@pytest.mark.parametrize("threads, iterations, size", [(1, 5, 8), (3, 4, 100)])
def test_operations_are_those_of_the_model(
    tmp_path: Path, mode: str, threads: int, iterations: int, size: int
) -> None:
    given = f"--mode {mode} -n {threads} -i {iterations} -s {size} -w 10".split()
    assert logged(tmp_path, "false_sharing", *given) == model(mode, threads, iterations, "malloc", size)
    expected = model(mode, threads, iterations, "aligned", size)
    assert logged(tmp_path, "false_sharing", *given, "--placement", "padded") == expected


@pytest.mark.parametrize("mode", ["active", "passive"])
def test_stores_reach_the_objects(mode: str) -> None:
    """Compiled with optimisation, the original programs contain neither the allocation nor the store."""
    done = run("false_sharing", "--mode", mode, "-n", "3", "-i", "20", "-w", "30", "--format", "none",
               preload=places.native("libledger.so"))
    allocated, freed, written = map(int, done.stderr.split())
    assert written == 3 * 20 and freed == written + (3 if mode == "passive" else 0) <= allocated


def test_repetitions_are_shared_out_without_loss() -> None:
    assert measure("false_sharing", "7", "10", "3", "100")["counts"]["stores"] == 10 * 100 * 3


@pytest.mark.parametrize("words", ["2 3 8 1000", "2 3_8_1000", "-n 2 3_8_1000", "2 3 8 1000 1"])
def test_published_forms_mean_the_same(words: str) -> None:
    parameters = measure("false_sharing", *words.split())["parameters"]
    assert [parameters[p] for p in ("threads", "iterations", "size", "repetitions")] == [2, 3, 8, 1000]


def test_lines_in_common_are_found() -> None:
    """glibc lets each thread keep the neighbour it was given, again and again; padding parts them."""
    options = ("--mode", "passive", "-n", "8", "-i", "50", "-w", "80")
    assert metric(measure("false_sharing", *options), "line_sharing") > 0.5
    padded, plain = (measure("false_sharing", *options, "--placement", p) for p in ("padded", "heap"))
    assert metric(padded, "line_sharing") == 0
    assert padded["checksum"] == plain["checksum"], "the same work, compared in one study"

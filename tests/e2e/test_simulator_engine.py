# SPDX-License-Identifier: Apache-2.0
"""The simulated machine runs the mutators as they are, counts what it says it counts, and does the same for the same seed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from heapyard.model import places

LIMIT = 300  # seconds
WORKLOADS = {
    "threadtest": ["-i", "2", "-o", "2000"],
    "larson": ["--rounds", "1", "-g", "2", "-c", "200"],
    "producer_consumer": ["--rounds", "1", "-l", "20", "-b", "100"],
}
LONG_HEAPS = ("", "heapyard", "scalloc", "bfm", "elfmalloc")  # "": the C library's


def launched(out: Path, *command: object, options: str = "", heap: str = "") -> subprocess.CompletedProcess[str]:
    emulator = shutil.which("qemu-x86_64")
    plugin = places.native("libheapyard_simulator.so")
    if emulator is None or not plugin.exists():
        pytest.skip("this machine has no qemu-x86_64 (Debian's package qemu-user), or the simulator is not built for it")
    preload = ["-E", f"LD_PRELOAD={places.native(f'lib{heap}.so').resolve()}"] if heap else []
    words = [emulator, "-seed", "1", "-E", "HEAPYARD_SIMULATED=1", *preload]
    words += ["-plugin", f"{plugin.resolve()},out={out}{options}", *map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)


def simulated(
    out: Path, mutator: str, threads: int, *words: str, options: str = ",machine=desktop", heap: str = ""
) -> dict[str, Any]:
    command = [places.native(mutator).resolve(), "--threads", threads, "--format", "none", *words]
    run = launched(out, *command, options=options, heap=heap)
    assert run.returncode == 0, run
    record: dict[str, Any] = json.loads(out.read_text())
    return record


def counted(record: dict[str, Any]) -> str:
    """All but the real time, as text: byte for byte."""
    return json.dumps({name: value for name, value in record.items() if name != "real_seconds"})


def test_the_same_seed_counts_the_same(tmp_path: Path) -> None:
    words = WORKLOADS["larson"]
    first, second = (simulated(tmp_path / name, "larson", 4, *words) for name in ("first", "second"))
    assert counted(first) == counted(second)
    other = simulated(tmp_path / "other", "larson", 4, *words, options=",machine=desktop,seed=2")
    assert counted(other) != counted(first)


def test_the_record_is_consistent(tmp_path: Path) -> None:
    record = simulated(tmp_path / "record", "threadtest", 3, *WORKLOADS["threadtest"])
    assert record["simulation"] == 1
    assert record["machine"]["name"] == "desktop"
    assert [thread["thread"] for thread in record["threads"]] == [0, 1, 2]
    for count, total in record["totals"].items():
        assert total == pytest.approx(sum(thread[count] for thread in record["threads"]))
        assert 0 <= record["measured"][count] <= total
    assert record["accesses"] == sum(record["totals"][count] for count in ("loads", "stores", "atomics"))
    assert 0 < record["measured_seconds"] < record["seconds"]
    transfers = [line["transfers"] for line in record["lines"]]
    assert transfers == sorted(transfers, reverse=True)
    for line in record["lines"]:
        assert line["address"] % 64 == 0
        assert line["owner"]["kind"] in ("symbol", "heap", "stack", "mapping")
        assert all(0 <= writer["low"] < writer["high"] <= 64 for writer in line["writers"])


def shared_falsely(out: Path, placement: str) -> int:
    words = ["--mode", "passive", "--iterations", "4", "--repetitions", "8000", "--placement", placement]
    lines = simulated(out, "false_sharing", 4, *words)["lines"]
    return sum(
        line["false_transfers"] for line in lines if line["is_false_sharing"] and line["owner"]["kind"] in ("heap", "mapping")
    )


def test_false_sharing_is_seen_where_it_is(tmp_path: Path) -> None:
    """Passive: the main thread allocates neighbours, which four threads then write. Padded objects share no line."""
    assert shared_falsely(tmp_path / "neighbours", "heap") > 10 * shared_falsely(tmp_path / "apart", "padded")


@pytest.mark.parametrize("words", [[], ["exit"]], ids=["joins", "exits"])
def test_waits_of_all_kinds_end(tmp_path: Path, words: list[str]) -> None:
    """While threads are held a fork, an exit and the kernel's own waits need them to let go."""
    run = launched(tmp_path / "record", places.native("waits").resolve(), *words, options=",machine=desktop")
    said = ["child 3", "signals 2", "read 1", "semaphore -1", "condition 110", "processors 16"]
    assert (run.returncode, run.stdout.splitlines()) == (0, said), run
    record = json.loads((tmp_path / "record").read_text())
    assert record["let_go"] > 0
    assert len(record["warnings"]) == 1


@pytest.mark.parametrize(
    "option", ["machine=abacus", "cores=0", "cores=129", "seed=-1", "quantum=0", "placement=odd", "colour=red"]
)
def test_a_wrong_option_is_refused_in_one_sentence(tmp_path: Path, option: str) -> None:
    run = launched(tmp_path / "record", places.native("threadtest").resolve(), options=f",{option}")
    assert run.returncode == 2, run
    assert run.stderr.count("\n") == 1
    assert run.stderr.startswith("heapyard simulator: ")
    assert not (tmp_path / "record").exists()


@pytest.mark.on_request
@pytest.mark.parametrize("heap", LONG_HEAPS)
@pytest.mark.parametrize("mutator", WORKLOADS)
def test_five_runs_count_the_same(tmp_path: Path, mutator: str, heap: str) -> None:
    words = [str(int(word) * 4) if word.isdigit() else word for word in WORKLOADS[mutator]]
    runs = {counted(simulated(tmp_path / f"{run}", mutator, 4, *words, heap=heap)) for run in range(5)}
    assert len(runs) == 1

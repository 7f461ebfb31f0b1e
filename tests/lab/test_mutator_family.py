# SPDX-License-Identifier: Apache-2.0
"""What holds for every mutator on the kit: options, result, exact memory, no call but the workload's, any allocator."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from heapyard.catalog.allocators import installed_allocators
from heapyard.catalog.own_heaps import own_heaps
from heapyard.model import places
from mutator_runs import measure, metric, run

MUTATORS = Path(__file__).resolve().parents[2] / "mutators"

# One short command line for each way a mutator can work; THREADS stands for a number.
SHORT = {
    "threadtest": ["-n THREADS -i 20 -o 500"],
    "shbench": ["-n THREADS --slots 700 --sweeps 70 --max-size 50",
                "--variant sh8 -n THREADS --slots 700 --sweeps 70 --foreign 700"],
    "larson": ["-n THREADS -c 40 --rounds 5 -g 3"],
    "false_sharing": ["--mode active -n THREADS -i 30 -w 200", "--mode passive -n THREADS -i 30 -w 200",
                      "--placement padded -n THREADS -i 30 -w 200"],
    "producer_consumer": ["--mode exchange -n THREADS --loops 20 -b 100 -o 60",
                          "--mode exchange -n THREADS --loops 20 -b 100 -o 60 --cross-rate 1 --in-flight 1",
                          "--mode ring -n THREADS --objects 100", "--mode pair -n EVEN --objects 100"],
    "factorial": ["-n THREADS --allocations 3000", "-n THREADS --allocations 3000 --zero later --release random "
                  "--releaser neighbour --again --min-size 256 --max-size 1024"],
    "malloc_test": ["-n THREADS --iterations 500", "--mode rows -n THREADS --iterations 500",
                    "--mode chain -n THREADS --objects 50 -g 3"],
    "xmalloc": ["-n THREADS --objects 40 --batches 10 --waiting 3",
                "-n THREADS --objects 40 --batches 10 -s -1 --last-first"],
    "stress": ["-n THREADS --steps 500 --slots 60 --pool 30 -g 3"],
    "pairs": ["-n THREADS --objects 1600", "--mode random -n THREADS --slots 50 --objects 1000"],
    "large_blocks": ["-n THREADS --slots 3 --steps 20 --max-size 256K"],
    "realloc_growth": ["-n THREADS --buffers 6 --rounds 2 --max-size 4K"],
    "leak_window": ["-n THREADS --window 32K --keep 16K --epochs 8"],
    "aligned": ["-n THREADS --slots 40 --steps 300"],
    "netbuild": ["-n THREADS --shapes 150 --tasks 9 --spread 2"],
    "patterns": ["alt:17,176 -n THREADS --blocks 1000 --rounds 1",
                 "r:1-63 --replace --verify -n THREADS --blocks 1000 --rounds 1",
                 "ma:1-250 --verify -n THREADS --blocks 2000 -i 2"],
}
RUNS = [(name, options) for name, lines in SHORT.items() for options in lines]

# Those of one thread that look at what their objects hold.
LOOKS = [
    ("larson", "-n 1 -c 2000 --rounds 2"),
    ("producer_consumer", "--mode ring -n 1 --objects 5000"),
    ("producer_consumer", "--mode exchange -n 1 --loops 20"),
    ("xmalloc", "-n 1 -o 500 -b 3"),
    ("stress", "-n 1 -g 1 --steps 2000"),
    ("large_blocks", "--max-size 8K --steps 200"),
    ("leak_window", "--window 64K --keep 64K --epochs 2"),
    ("aligned", "--steps 1000"),
]

# Allocators that do not keep what they promise, and the mutator that finds it out.
FAULTS = {
    ("aligned", "mimalloc", "2.0.9"),  # blocks of aligned_alloc lie up to 384 bytes off alignments of 256 to 1024
}

MEASURED = {"throughput", "wall_time", "time_per_operation", "cpu_time", "rss_peak", "rss_average", "heap_peak",
            "heap_average", "minor_faults", "major_faults"}


def words(options: str, threads: int) -> list[str]:
    return options.replace("THREADS", str(threads)).replace("EVEN", str(max(2, threads))).split()


def test_no_mutator_of_the_tree_is_left_out() -> None:
    family = {
        folder.name for folder in MUTATORS.iterdir()
        if any("kit/session.hpp" in source.read_text() for source in folder.glob("*.[ch]pp"))
    }
    assert family == set(SHORT)


@pytest.mark.parametrize("name, options", RUNS)
@pytest.mark.parametrize("threads", [1, 2, 8, 64])
def test_every_allocator_serves_the_same_operations(name: str, options: str, threads: int) -> None:
    # Variants of our heaps, such as bfm-coarse, take part in a mutator's first way with two threads, for the time they take.
    first = threads == 2 and options == SHORT[name][0]
    # Others' allocators stand aside where there are many threads, for the same reason.
    own = {heap.name for heap in own_heaps()}
    variants = set() if first else {heap for heap in own if "-" in heap}
    expected = own | {"glibc", *(allocator for mutator, allocator, _ in FAULTS if mutator == name)}
    allocators = [a for a in installed_allocators() if a.name not in variants and (threads <= 8 or a.name in expected)]
    results = {a.name: measure(name, *words(options, threads), preload=a.library, env=a.env) for a in allocators}
    wrong = {a.name for a in allocators if (name, a.name, a.version) in FAULTS}
    checksums = {result["checksum"] for allocator, result in results.items() if allocator not in wrong}
    assert len(checksums) == 1, {a: r["checksum"] for a, r in results.items()}
    assert all(results[allocator]["checksum"] not in checksums for allocator in wrong)
    for result in results.values():
        counts = result["counts"]
        assert counts["malloc_calls"] == counts["free_calls"] > 0
        assert counts["operations"] == sum(counts[c] for c in ("allocations", "releases", "reallocations"))


@pytest.mark.parametrize("name, options", RUNS)
def test_the_result_is_what_the_lab_reads(name: str, options: str) -> None:
    result = measure(name, *words(options, 2), "--latency", "7")
    assert result["mutator"] == name and result["version"]
    assert {"parameters", "metrics", "checksum", "counts", "bookkeeping_bytes", "base_rss_bytes", "counter_read_ns",
            "per_thread", "series"} <= set(result)
    assert result["parameters"]["threads"] == 2 and result["parameters"]["seed"] == 1
    metrics = {m["name"]: m for m in result["metrics"]}
    assert len(metrics) == len(result["metrics"])
    assert set(metrics) >= MEASURED
    assert all(m["direction"] in ("lower", "higher") for m in metrics.values())
    assert metrics["throughput"]["direction"] == "higher"
    first = "realloc" if name == "realloc_growth" else "aligned" if "padded" in options else "malloc"
    for call in (first, "free"):
        quantiles = [metric(result, f"{call}_{q}") for q in ("p50", "p90", "p99", "p99.9", "p99.99", "max")]
        assert quantiles == sorted(quantiles) and quantiles[-1] > 0
    assert metric(result, "rss_peak") >= metric(result, "rss_average") >= metric(result, "heap_average")
    assert len(result["series"]["rss"]) == len(result["series"]["time_us"]) >= 2
    assert result["series"]["time_us"] == sorted(result["series"]["time_us"])


@pytest.mark.parametrize("name, options", RUNS)
def test_observing_changes_no_operation(name: str, options: str, tmp_path: Path) -> None:
    plain = measure(name, *words(options, 2))["checksum"]
    assert measure(name, *words(options, 2), "--latency", "3")["checksum"] == plain
    log = tmp_path / "log"
    result = measure(name, *words(options, 2), "--log-operations", str(log))
    assert result["checksum"] == plain
    lines = log.read_text().splitlines()
    assert len(lines) == sum(result["counts"][c] for c in ("malloc_calls", "free_calls", "reallocations"))


@pytest.mark.parametrize("name", ["larson", "producer_consumer"])
def test_another_seed_is_another_sequence(name: str) -> None:
    options = words(SHORT[name][0], 2)
    assert measure(name, *options)["checksum"] != measure(name, *options, "--seed", "2")["checksum"]


@pytest.mark.parametrize("name, options", RUNS)
@pytest.mark.parametrize("threads", [1, 8])
def test_no_call_but_the_workloads_own_and_nothing_is_left(name: str, options: str, threads: int) -> None:
    """A library that keeps account sees as many blocks as the mutator says, and a few made with the threads."""
    done = run(name, *words(options, threads), "--format", "none", "--json", "-", preload=places.native("libledger.so"))
    assert done.returncode == 0, done.stderr
    allocated, freed, _ = map(int, done.stderr.split())
    counts = json.loads(done.stdout)["counts"]
    moved = counts["reallocations"]  # this library answers each with another block
    assert freed == counts["free_calls"] + moved
    # The C library makes a table for each thread's thread-local variables, before anything is measured.
    assert 0 <= allocated - counts["malloc_calls"] - moved <= 2 * threads + 3


@pytest.mark.parametrize("name, options", RUNS)
@pytest.mark.parametrize("observed", [[], ["--latency", "2"]])
def test_more_work_makes_no_more_calls_of_the_mutators_own(name: str, options: str, observed: list[str]) -> None:
    amounts = "-i|-g|--sweeps|--loops|--objects|--allocations|--iterations|--batches|--steps|--rounds|--epochs|--tasks"
    longer = re.sub(rf"({amounts}) (\d+)", lambda m: f"{m[1]} {3 * int(m[2])}", options)
    assert longer != options

    def calls_of_its_own(line: str) -> int:
        done = run(name, *words(line, 4), *observed, "--format", "none", "--json", "-",
                   preload=places.native("libledger.so"))
        counts = json.loads(done.stdout)["counts"]
        return int(done.stderr.split()[0]) - counts["malloc_calls"] - counts["reallocations"]

    # The threads that some start while they run take the C library's tables from each other, as chance has it.
    chance = 4 if name in ("larson", "stress") or "--mode chain" in options else 0
    assert abs(calls_of_its_own(options) - calls_of_its_own(longer)) <= chance


@pytest.mark.parametrize("name", SHORT)
def test_memory_is_without_the_bookkeeping(name: str) -> None:
    """The tables of many threads are megabytes; the base, before any call, is that of a run with few."""
    few, many = (measure(name, *words(SHORT[name][0], n), "--latency", "1") for n in (1, 64))
    assert many["bookkeeping_bytes"] - few["bookkeeping_bytes"] > 4 << 20
    assert many["base_rss_bytes"] - few["base_rss_bytes"] < 2 << 20  # stacks and thread objects


def test_the_peak_is_that_of_the_heap_alone() -> None:
    """A library that never frees holds at the end exactly what was asked of it, in pages that were all written."""
    for threads in (1, 3):
        result = measure("threadtest", "-n", str(threads), "-i", "40", "-o", "20000", "-s", "64",
                         preload=places.native("libbump.so"))
        asked = result["counts"]["bytes"]
        assert metric(result, "heap_peak") == pytest.approx(asked, rel=0.02)
        assert result["series"]["rss"][-1] - result["base_rss_bytes"] == pytest.approx(asked, rel=0.02)
        assert 0.2 * asked < metric(result, "heap_average") < asked


def test_memory_is_looked_at_even_if_the_parent_blocks_the_timers_signal() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    try:
        result = measure("threadtest", "-i", "3000", "--sample-period", "1")
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    assert result["counts"]["memory_samples"] > 2  # the first and the last are not the timer's


@pytest.mark.parametrize("name", SHORT)
def test_common_options_are_checked(name: str) -> None:
    for options, sentence in {
        "--threads 0": "option --threads (-n) must be a whole number from 1 to 1024, not '0'",
        "--threads two": "option --threads (-n) must be a whole number from 1 to 1024, not 'two'",
        "--latency": "option --latency needs an argument",
        "--fish": "there is no option --fish",
        "--format loud": "option --format must be one of table|none, not 'loud'",
        "1_1_1_1_1_1_1_1_1_1": "argument",
    }.items():
        done = run(name, *options.split())
        assert done.returncode == 2 and done.stderr.startswith(f"{name}: ") and done.stderr.count("\n") == 1
        assert sentence in done.stderr


@pytest.mark.parametrize("name", SHORT)
def test_help_fits_and_names_every_option_with_its_range(name: str) -> None:
    text = run(name, "--help").stdout
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "-n, --threads N\n" in text and "[1..1024, default 1]" in text and "--log-operations FILE" in text
    assert re.search(r"^Examples:\n  " + name, text, re.MULTILINE)


@pytest.mark.parametrize("name", SHORT)
def test_a_result_that_cannot_be_written_is_told(name: str, tmp_path: Path) -> None:
    for option in ("--json", "--log-operations"):
        done = run(name, *words(SHORT[name][0], 1), option, str(tmp_path))
        assert done.returncode == 1 and "cannot write" in done.stderr
    if os.path.exists("/dev/full"):
        assert run(name, *words(SHORT[name][0], 1), "--json", "/dev/full").returncode == 1


@pytest.mark.parametrize("name", SHORT)
def test_a_heap_that_has_no_more_is_told_with_what_was_reached(name: str) -> None:
    long = {"threadtest": "-o 5000", "shbench": "--slots 5000", "larson": "-c 5000", "false_sharing": "-i 5000",
            "producer_consumer": "--mode ring --objects 5000",
            "large_blocks": "--max-size 64K --steps 5000"}.get(name, "")
    done = run(name, *long.split(), preload=places.native("libenomem.so"))
    assert done.returncode == 4
    assert re.fullmatch(
        rf"{name}: (malloc|aligned|realloc) of \d+ bytes failed in thread 0, which had made \d+ allocations of \d+ "
        r"bytes, \d+ reallocations and \d+ releases in this phase\n",
        done.stderr,
    )


@pytest.mark.parametrize("name, options", LOOKS)
def test_damaged_contents_change_the_checksum(name: str, options: str) -> None:
    ledger = places.native("libledger.so")
    sound = measure(name, *options.split(), preload=ledger)
    damaged = measure(name, *options.split(), preload=ledger, env={"HEAPYARD_TEST_SMUDGE": "1"})
    assert sound["checksum"] == measure(name, *options.split())["checksum"] != damaged["checksum"]

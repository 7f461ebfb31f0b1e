# SPDX-License-Identifier: Apache-2.0
"""ACDC as a program: options, laws seen from outside, and each defect of the published code, shown not to be ours."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from heapyard.model import places

ACDC = places.native("acdc")
CHECKED = places.native("acdc_checked")


def run(
    *options: str,
    preload: Path | None = None,
    program: Path = ACDC,
    env: dict[str, str] | None = None,
    limit_kib: int | None = None,
) -> subprocess.CompletedProcess[str]:
    command: Sequence[str] = [str(program), *options]
    if limit_kib:
        command = ["sh", "-c", f'ulimit -v {limit_kib}; exec "$0" "$@"', *command]
    environment = {"PATH": "/usr/bin:/bin", **(env or {})}
    if preload:
        environment["LD_PRELOAD"] = str(preload)
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)


def measure(*options: str, **how: object) -> dict:
    done = run(*options, "--format", "none", "--json", "-", **how)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def metric(result: dict, name: str) -> float:
    return next(m["value"] for m in result["metrics"] if m["name"] == name)


# ---------------------------------------------------------------------------------------------- options

PUBLISHED = {
    "prod-cons": "-a -s 4 -S 9 -d 30 -l 1 -L 5 -t 1000000 -O -T 100 -R 100 -N 50000 -C 5000 -H 1000 -A -n 2",
    "object-size": "-a -d 5 -l 1 -L 1 -n 2 -N 1000 -C 500 -H 100 -A -s 8 -S 10 -t 262144",
    "locality": "-a -t 1000000 -d 30 -l 1 -L 10 -s 4 -S 5 -i 1 -w 0 -A -N 2000 -C 2000 -H 4 -q 30",
    "object-size 4": "-a -d 5 -l 1 -L 1 -n 2 -N 1000 -C 500 -H 100 -A -s 4 -S 6 -t 16384",
}


@pytest.mark.parametrize("options", PUBLISHED.values(), ids=PUBLISHED.keys())
def test_published_command_lines_run_as_they_stand(options: str) -> None:
    assert run(*options.split()).returncode == 0


def test_the_letter_a_means_the_defaults_of_the_published_code() -> None:
    paper, code = measure()["parameters"], measure("-a")["parameters"]
    assert (paper["duration"], paper["access"], paper["drift"]) == (50, True, 10)
    assert (code["duration"], code["access"], code["drift"]) == (100, False, 10)
    assert measure("-a", "-L", "4")["parameters"]["drift"] == 4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-n", "0"], "option --threads (-n) must be a whole number from 1 to 1024, not '0'"),
        (["--threads", "two"], "option --threads (-n) must be a whole number from 1 to 1024, not 'two'"),
        (["-T", "0"], "option --receivers (-T) must be a whole number from 1 to 100, not '0'"),
        (["-q", "101"], "option --list-ratio (-q) must be a whole number from 0 to 100, not '101'"),
        (["-l", "0"], "option --min-liveness (-l) must be a whole number from 1 to 1000000, not '0'"),
        (["-l", "11"], "the minimum liveness 11 is larger than the maximum liveness 10"),
        (["-s", "9", "-S", "5"], "the minimum size 512 is larger than the maximum size 31"),
        (["-t", "12X"], "must be a whole number from 1 to"),
        (["-t"], "option -t needs an argument"),
        (["--fish"], "there is no option --fish"),
        (["extra"], "there is no argument 'extra'"),
        (["--placement", "loose"], "option --placement must be one of heap|compact|align, not 'loose'"),
        (["--placement", "compact", "--latency", "10"], "--latency times single objects"),
        (["-f", "--permanent", "5"], "--permanent has no meaning in false-sharing mode"),
        (["--model", "/nonexistent"], "cannot read the model /nonexistent"),
    ],
)
def test_bad_options_get_one_sentence_and_exit_2(options: list[str], sentence: str) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert done.stderr.startswith("acdc: ") and done.stderr.count("\n") == 1
    assert sentence in done.stderr


def test_help_names_every_option_with_its_range_and_fits_80_columns() -> None:
    text = run("--help").stdout
    assert all(len(line) <= 80 for line in text.splitlines())
    for letter in "afnFsSlLDtdgqAwiOTRrPv":
        assert re.search(rf"^  -{letter}, --", text, re.MULTILINE), letter
    assert "[1..1024, default 1]" in text


def test_a_result_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    done = run("--json", str(tmp_path))
    assert done.returncode == 1 and "cannot write" in done.stderr


# ---------------------------------------------------------------------------------------------- determinism


def test_same_seed_same_sequence_under_any_allocator_and_thread_schedule() -> None:
    from heapyard.catalog.allocators import installed_allocators

    options = ("-n", "3", "-O", "-q", "40", "--permanent", "3", "-d", "20")
    results = [measure(*options, preload=a.library, env=a.env) for a in installed_allocators()]
    assert len(results) > 1 and len({r["checksum"] for r in results}) == 1
    assert all(r["counts"]["malloc_calls"] == r["counts"]["free_calls"] > 0 for r in results)
    checksums = {results[0]["checksum"]}
    assert measure(*options, "-r", "2")["checksum"] not in checksums
    assert measure(*options, "--repetition", "1")["checksum"] not in checksums


def test_the_sequence_is_that_of_every_machine() -> None:
    # The sequence is part of the interface: studies cite it. A change here is a change of version.
    assert measure("-d", "20")["checksum"] == measure("-d", "20", "--no-access")["checksum"]
    assert (
        measure("-d", "20")["checksum"]
        == (Path(__file__).parents[1] / "data" / "acdc_sequence.txt").read_text().strip()
    )


def test_seed_zero_is_a_seed_like_any_other() -> None:
    counts = measure("-r", "0")["histograms"]["objects_by_liveness"]
    assert all(counts[1:])


# ---------------------------------------------------------------------------------------------- semantics


def expected_live(result: dict) -> float:
    """Live bytes per thread when the clock advances: quantum x (mean liveness by bytes + delay). Closed form."""
    p = result["parameters"]
    weights = {q: (p["max_liveness"] - q + 1) ** 2 for q in range(p["min_liveness"], p["max_liveness"] + 1)}
    mean = sum(q * w for q, w in weights.items()) / sum(weights.values())
    return p["quantum"] * (mean + p["delay"]) * p["threads"]


@pytest.mark.parametrize("delay", [0, 5, 15])
def test_live_heap_of_table_2_is_the_closed_form_within_2_percent(delay: int) -> None:
    # Table 2: 8 B to 8 KB; a smaller quantum and more ticks than the paper's give the same expectation with less noise.
    result = measure("-s", "3", "-S", "13", "-t", "5M", "-D", str(delay), "-d", "400", "--no-access")
    assert metric(result, "live_average") == pytest.approx(expected_live(result), rel=0.02)


def test_shared_objects_live_as_long_as_their_liveness_says() -> None:
    """The published code scrambles lifetimes of shared objects: 1.57 times the live memory in this very experiment."""
    options = ("-s", "4", "-S", "9", "-l", "1", "-L", "5", "-t", "200000", "-n", "1", "-d", "400", "--no-access")
    alone, shared = measure(*options), measure(*options, "-O")
    assert metric(shared, "live_average") == pytest.approx(metric(alone, "live_average"), rel=0.02)


def test_sharing_with_a_delay_and_every_shape_frees_everything() -> None:
    for options in (
        ["-O", "-D", "7"],
        ["-O", "-T", "50"],
        ["-O", "-T", "1", "-n", "2"],
        ["-O", "-R", "50", "-q", "50", "-D", "3"],
    ):
        result = measure("-n", "4", "-d", "20", "-t", "50000", *options, program=CHECKED)
        counts = result["counts"]
        assert counts["malloc_calls"] == counts["free_calls"] == counts["objects"]


def test_permanent_objects_stay_until_the_end() -> None:
    result = measure("--permanent", "100", "-d", "20", "--no-access")
    assert metric(result, "deallocation_time") == 0
    live = result["series"]["live"]
    assert live == result["series"]["allocated"] == sorted(live)
    assert result["counts"]["objects_drained"] == result["counts"]["objects"]


@pytest.mark.parametrize("ratio", [0, 10, 30, 60, 100])
@pytest.mark.parametrize("lists", ["0", "100"])
def test_the_write_ratio_holds_for_lists_and_trees(ratio: int, lists: str) -> None:
    counts = measure("-w", str(ratio), "-q", lists)["counts"]
    assert counts["objects_written"] == counts["objects_accessed"] * ratio // 100


def test_false_sharing_mode_spends_exactly_its_quantum() -> None:
    result = measure(
        "-f", "--min-size", "10B", "--max-size", "10B", "-t", "100000", "-n", "3", "-d", "10", "-l", "1", "-L", "1"
    )
    assert result["counts"]["objects"] == 30
    assert metric(result, "access_time") > 0
    assert measure("-f", "--placement", "align", "-n", "3", "-d", "5", "-t", "1000")["counts"]["objects"] == 15


def test_compact_placement_asks_once_per_class() -> None:
    counts = measure("--placement", "compact", "-q", "50")["counts"]
    assert counts["malloc_calls"] == counts["free_calls"] == counts["classes"] < counts["objects"]


def test_too_few_ticks_for_a_warm_up_give_no_average_rather_than_nonsense() -> None:
    result = measure("-d", "20", "-L", "10")
    assert not any(m["name"] == "rss_average" for m in result["metrics"])
    assert "No memory average" in run("-d", "20", "-L", "10").stdout


def test_sixty_four_threads_on_any_machine_end_and_keep_the_drift_bound() -> None:
    result = measure(
        "-n", "64", "-O", "-d", "12", "-g", "3", "-t", "20000", program=CHECKED
    )  # asserts the bound at each tick
    assert len(result["per_thread"]) == 64


@pytest.mark.parametrize("threads", ["100", "300"])
def test_more_threads_than_a_word_has_bits(threads: str) -> None:
    result = measure("-n", threads, "-O", "-T", "10", "-d", "4", "-t", "5000", "-L", "3", program=CHECKED)
    assert result["counts"]["malloc_calls"] == result["counts"]["free_calls"]


# ---------------------------------------------------------------------------------------------- measurement


def test_the_mutator_makes_no_heap_call_of_its_own() -> None:
    """Calls seen by a counting malloc grow by exactly the objects when the run grows; so the measured phase adds none."""

    def calls_beyond_objects(*options: str) -> int:
        done = run(*options, "--format", "none", "--json", "-", preload=places.native("libcounts.so"))
        return int(done.stderr) - json.loads(done.stdout)["counts"]["malloc_calls"]

    for extra in ([], ["-O", "-q", "50"], ["--latency", "10"]):
        assert calls_beyond_objects("-d", "10", *extra) == calls_beyond_objects("-d", "60", *extra)


def test_memory_is_without_the_bookkeeping() -> None:
    bump = measure("-d", "60", "-F", "4", "-s", "8", "-S", "8", "--no-access", preload=places.native("libbump.so"))
    assert bump["bookkeeping_bytes"] > 2**18  # many small classes: enough to be seen if it were counted
    assert bump["series"]["rss"][-1] - bump["base_rss_bytes"] == pytest.approx(
        bump["series"]["allocated"][-1], rel=0.02
    )


def test_running_out_of_memory_is_reported_with_what_was_reached() -> None:
    done = run("-t", "100M", "-S", "20", "-d", "50", limit_kib=200_000)
    assert done.returncode == 4
    assert re.fullmatch(
        r"acdc: malloc of \d+ bytes failed in thread 0 at tick \d+ of 50; \d+ bytes had been allocated and \d+ freed\n",
        done.stderr,
    )
    refused = run("-d", "50", "-t", "10M", preload=places.native("libenomem.so"))
    assert refused.returncode == 4 and "bytes failed in thread 0" in refused.stderr


def test_the_lines_of_the_published_code_keep_their_columns() -> None:
    text = run("-a", "-n", "2", "-P", "mine", "--format", "acdc", "-v").stdout
    runtime = next(line for line in text.splitlines() if line.startswith("RUNTIME")).split()
    assert runtime[1:3] == ["mine", "2"] and runtime[4] == "100.0%"
    total, allocation, deallocation, access = (int(runtime[i]) for i in (3, 5, 7, 9))
    assert total > allocation > 0 < deallocation and access == 0
    memory = next(line for line in text.splitlines() if line.startswith("MEMORY")).split()
    assert memory[:3] == ["MEMORY", "mine", "2"] and int(memory[5]) > 0
    assert len([line for line in text.splitlines() if line.startswith("gopts->")]) == 24
    assert len([line for line in text.splitlines() if line.startswith("MEMSTATS\tmine\t0\t")]) == 100


def test_latencies_are_ordered_and_count_every_nth_operation() -> None:
    result = measure("--latency", "5", "-d", "40")
    for operation in ("malloc", "free"):
        quantiles = [metric(result, f"{operation}_{q}") for q in ("p50", "p90", "p99", "p99.9", "p99.99", "max")]
        assert quantiles == sorted(quantiles) and quantiles[-1] > 0


def test_a_model_from_a_file_decides_sizes_lifetimes_and_sharing(tmp_path: Path) -> None:
    model = tmp_path / "model.txt"
    model.write_text(
        "heapyard-mutator-model 1\ngroup 50\nshared 100 100\nbucket 64 64 2 2 1\ngroup 50\nbucket 512 1023 7 7 1\n"
    )
    result = measure("--model", str(model), "-n", "2", "-d", "30", program=CHECKED)
    sizes = result["histograms"]["objects_by_size_exponent"]
    liveness = result["histograms"]["objects_by_liveness"]
    assert [e for e, n in enumerate(sizes) if n] == [6, 9]
    assert [q for q, n in enumerate(liveness) if n] == [2, 7]
    assert 0 < result["counts"]["classes_shared"] < result["counts"]["classes"]

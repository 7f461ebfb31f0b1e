# SPDX-License-Identifier: Apache-2.0
"""`compare --load` against what is built in: a server of known delays and leaks, under libraries of known faults.

Each request takes a known time at least, and keeps a known number of bytes. Bounds of time are lower ones, which no
disturbance can break; where two libraries are compared, what is built in is many times what a disturbance brings.
HEAPYARD_SERVER_BLOCKS: blocks of the long form on request, 5 unless said otherwise.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from statistics import fmean

import pytest
from e2e_yard import control, program, shim, values

from heapyard.catalog.allocators import find_allocators
from heapyard.catalog.program_command import program_from_command
from heapyard.catalog.server_command import Load
from heapyard.execute.trial import run_trial
from heapyard.model.analysis import Analysis, Comparison
from heapyard.model.experiment import Settings, Treatment
from heapyard.model.record import Record
from heapyard.stats.analyse import analyse

NATIVE = Path(__file__).resolve().parents[1] / "native"
GENERATOR = Path(__file__).with_name("open_loop.py")
PAGE = os.sysconf("SC_PAGE_SIZE")
REST = 1 << 20  # bytes by which two launches of the server differ otherwise: a library, stacks, the kernel's counters
DELAY = 5  # milliseconds that each request takes
CLIENTS, REQUESTS = 4, 100
LIBRARIES = ("late", "grows")


def built_in(name: str) -> int:
    """A number of known_server.h, which the server and the libraries are compiled from."""
    number, _, shift = re.search(rf"\b{name} = ([\d <]+)", (NATIVE / "known_server.h").read_text())[1].partition("<<")
    return int(number) << int(shift or 0)


LATE, EVERY, GROWTH = (built_in(name) for name in ("LATE_MILLISECONDS", "LATE_EVERY", "GROWTH_BYTES"))


def compared(yard, *, load: str, leak: int = 0, stall: int = 0, blocks: int = 2, libraries=LIBRARIES, options=()) -> Record:
    own = {name: shim(name) for name in libraries}
    server = (program("serves"), "{port}", DELAY * 1000, leak, stall)
    more = ["--load", load, "--settle", "200ms", *options]
    result = yard.compare(*server, own=own, blocks=blocks, options=more)
    assert result.returncode == 0, result.stderr
    yard.said = result.stdout
    record = yard.record()
    assert not record.observations.failures
    return record


def versus(analysis: Analysis, metric: str, treatment: str) -> Comparison:
    cell = next(c for c in analysis.cells if c.metric == metric)
    return next(c for c in cell.comparisons if c.treatment == treatment)


def fixed_work(requests: int) -> str:
    return f"ab -k -q -n {requests} -c {CLIENTS} http://127.0.0.1:{{port}}/"


def check_times(record: Record) -> None:
    """Lower bounds of every trial, and the order of the libraries, from the delays that are built in."""
    ours = ("glibc", control(record), *LIBRARIES)
    extra = {name: LATE / EVERY if name == "late" else 0 for name in ours}  # milliseconds, on average of a request
    for name in ours:
        assert min(values(record, name, "latency_p50")) >= DELAY / 1e3
        assert min(values(record, name, "time_per_request")) >= (DELAY + extra[name]) / 1e3 / CLIENTS
    assert min(values(record, "late", "latency_p99")) >= (DELAY + LATE) / 1e3  # one in EVERY is more than one in a hundred
    assert max(values(record, "late", "latency_p50")) < (DELAY + LATE) / 1e3  # but less than every second one


def check_memory(record: Record, leak: int = 0) -> None:
    """Differences between launches that answered the same number of requests."""
    for lean, fat, requests in zip(*(values(record, name, what) for name, what in
                                     (("glibc", "left_rss"), ("grows", "left_rss"), ("grows", "requests"))), strict=True):
        assert abs(fat - lean - requests * GROWTH) < REST
        assert lean >= requests * leak
    # Every page that is kept is touched once.
    added = fmean(values(record, "grows", "faults_per_request")) - fmean(values(record, "glibc", "faults_per_request"))
    assert abs(added - GROWTH / PAGE) < 0.1 * GROWTH / PAGE


def check_verdicts(record: Record, blocks: int = 2) -> None:
    """Of memory the verdict is certain. Of times, two blocks on a machine at work may leave it open, and no more."""
    analysis = analyse(record.observations)
    assert versus(analysis, "left_rss", "grows").verdict == "worse"
    for metric in ("latency_p95", "latency_p99", "time_per_request"):
        assert versus(analysis, metric, "late").verdict in (("worse",) if blocks > 2 else ("worse", "undecided"))


def test_delays_growth_and_verdicts_are_as_built_in(yard) -> None:
    record = compared(yard, load=fixed_work(REQUESTS), options=["--lead", "latency_p95"])
    check_times(record)
    check_memory(record)
    check_verdicts(record)
    assert "late" in yard.said and "p99" in yard.said


def test_a_leak_of_the_server_itself_is_what_stays(tmp_path: Path) -> None:
    """The same server, once without and once with a leak: what is left differs by that of all requests."""
    leak, left = 8 * PAGE, []
    for bytes_ in (0, leak):
        words = (str(program("serves")), "{port}", "0", str(bytes_))
        server = program_from_command(words, load=Load((fixed_work(REQUESTS),), settle=0.1), cwd=tmp_path)
        (folder := tmp_path / str(bytes_)).mkdir()
        outcome = run_trial(server, Treatment("glibc", find_allocators(["glibc"])[0]), Settings(), pad=0, folder=folder)
        assert outcome.status == "ok", outcome.reason
        left.append(outcome.metrics["left_rss"])
    assert abs(left[1] - left[0] - REQUESTS * leak) < REST


@pytest.mark.on_request
def test_the_same_with_more_requests_and_blocks(yard) -> None:
    blocks, requests, leak = int(os.environ.get("HEAPYARD_SERVER_BLOCKS", "5")), 2000, 2 * PAGE
    record = compared(yard, load=fixed_work(requests), leak=leak, blocks=blocks, options=["--lead", "latency_p99"])
    check_times(record)
    check_memory(record, leak)
    check_verdicts(record, blocks)
    assert versus(analyse(record.observations), "left_rss", "late").verdict == "equivalent"  # most of it is the leak
    # Requests come evenly, so the second half of the load has three quarters of the growth on average.
    for lean, fat in zip(values(record, "glibc", "steady_rss"), values(record, "grows", "steady_rss"), strict=True):
        assert abs((fat - lean) / (requests * GROWTH) - 0.75) < 0.1


STALL, RATE, SECONDS = 100, 200, 10  # milliseconds at the begin of each second; requests a second; of load


def stalled(yard, load: str, *options: str) -> float:
    """The p99 that a load tells of a server which stalls, in seconds; the answer is left in `yard.said`."""
    record = compared(yard, load=load, stall=STALL, blocks=1, libraries=("plain",), options=options)
    return min(values(record, "glibc", "latency_p99"))


@pytest.mark.on_request
def test_a_closed_loop_leaves_out_what_an_open_one_sees(yard) -> None:
    """A tenth of all moments lie in a stall. In an open loop so do a tenth of the requests: the slowest hundredth of all wait
    for nine tenths of it or more, but for the distance between two requests. In a closed loop each client waits once a second."""
    open_loop = f"{sys.executable} {GENERATOR} {{port}} {RATE} {SECONDS}"
    p99 = stalled(yard, open_loop, "--metric", "latency_p99=p99 ([0-9.]+) s")
    assert p99 > 0.9 * STALL / 1e3 - 2 / RATE
    assert "coordinated omission" not in yard.said
    requests = int(CLIENTS * SECONDS * 0.9 / (DELAY / 1e3))
    assert CLIENTS * (SECONDS + 2) < requests / 100  # so few wait for a stall that the p99 is another's
    closed = stalled(yard, fixed_work(requests))
    assert closed < p99 / 2
    assert "ab waits for an answer" in " ".join(yard.said.split())


@pytest.mark.on_request
@pytest.mark.parametrize("name", ["vegeta", "wrk"])
def test_what_other_generators_tell_of_a_stall(yard, name: str) -> None:
    """vegeta keeps its rate. wrk does not, and fills in what a stall kept from it."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    url = "http://127.0.0.1:{port}/"
    loads = {
        "vegeta": f"echo GET {url} | vegeta attack -rate={RATE} -duration={SECONDS}s | vegeta report",
        "wrk": f"wrk -t1 -c{CLIENTS} -d{SECONDS}s --latency {url}",
    }
    assert stalled(yard, loads[name]) > 0.9 * STALL / 1e3 - 2 / RATE
    said = " ".join(yard.said.split())
    assert ("wrk waits for an answer" in said and "estimate" in said) == (name == "wrk")
    assert "coordinated omission" not in said


@pytest.mark.on_request
def test_two_modes_of_a_service_are_told(yard) -> None:
    """Two launches take DELAY for each request, the next two four times as long, whatever serves their malloc."""
    delay = f"$((n / 2 % 2 * {3000 * DELAY} + {1000 * DELAY}))"
    server = f"n=$(cat launches | wc -c); echo >>launches; exec {program('serves')} {{port}} {delay} 0"
    (yard.folder / "launches").touch()
    result = yard.compare("sh", "-c", server, blocks=8, options=["--load", fixed_work(REQUESTS), "--settle", "50ms"])
    assert result.returncode == 0, result.stderr
    (modes,) = analyse((record := yard.record()).observations).modes
    labels = ("glibc", control(record)) if modes.treatment == "glibc" else (modes.treatment,)
    medians = [value for label in labels for value in values(record, label, "latency_p50")]
    slow = sum(value >= 4 * DELAY / 1e3 for value in medians)  # their rate is the lower one; a fast one may be disturbed
    assert modes.in_low + modes.in_high == len(medians) and abs(modes.in_low - slow) <= 2 and modes.high / modes.low > 2
    assert f"The trials of {modes.treatment} fall into two groups" in " ".join(result.stdout.split())

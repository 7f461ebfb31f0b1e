# SPDX-License-Identifier: Apache-2.0
"""What the simulator counts of programs whose lines move as a textbook says: MESI and the order in which threads came.

`contends` prints that order where it can know it, and each expectation is computed from it. A line "moves" when a thread
writes it, or reads it first, after another thread wrote it.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from heapyard.execute.simulator.engine import engine, plugin, under_engine
from heapyard.model import places
from heapyard.model.errors import SetupError
from heapyard.model.simulation import Simulated

LIMIT = 120  # seconds


@pytest.fixture(scope="module", autouse=True)
def _simulator() -> None:
    try:
        engine(), plugin()
    except SetupError as error:
        pytest.skip(str(error))


@dataclass(frozen=True)
class Met:
    """A run of `contends`: what it printed, and the record of it."""

    printed: dict[str, Any]
    record: dict[str, Any]

    def line(self, name: str) -> dict[str, Any]:
        """What is recorded of a line that moved."""
        [found] = [line for line in self.record["lines"] if line["address"] == self.printed["lines"][name]]
        return found

    @property
    def handovers(self) -> int:
        """How often the operation after one of a thread was another thread's."""
        order = self.printed["order"]
        return sum(order[i] != order[i - 1] for i in range(1, len(order)))

    @property
    def alone(self) -> float:
        """How many atomics threads may do before all have begun: each starts within some quanta of the others."""
        atomics_in_quantum = self.record["quantum_cycles"] / self.record["machine"]["atomic_cycles"]
        return len(self.record["threads"]) * 4 * atomics_in_quantum


def met(folder: Path, kind: str, threads: int, operations: int, seed: int = 1) -> Met:
    out = folder / "run.json"
    command = [str(places.native("contends")), kind, str(threads), str(operations)]
    words, added = under_engine(command, Simulated("server", 24, seed), out, argv0="", added={})
    done = subprocess.run(words, env={**os.environ, **added}, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return Met(json.loads(done.stdout), json.loads(out.read_text()))


def moved_by_atomics(run: Met, name: str, threads: int) -> None:
    """The line of a fetch-and-add that all threads do: it moves at each hand-over, and each move takes the one copy there is.
    The first time a thread has it, it had none to lose."""
    line = run.line(name)
    assert line["lock_handovers"] == line["transfers"] == line["invalidations"] == run.handovers
    assert line["coherence_misses"] == run.handovers - (threads - 1)
    assert not line["is_false_sharing"]
    assert sum(writer["stores"] for writer in line["writers"]) in (len(run.printed["order"]), len(run.printed["order"]) - 1)


def check_ping_pong(folder: Path, operations: int, seed: int = 1) -> None:
    run = met(folder, "ping-pong", 2, operations, seed)
    line = run.line("first")
    stores = 2 * operations
    # The last store is read by nobody. Whether a thread looked before the first store decides by one.
    assert line["transfers"] - (stores - 1) in (0, 1)
    assert line["coherence_misses"] - (stores - 2) in (0, 1)
    assert line["invalidations"] - (stores - 1) in (0, 1)
    assert not line["is_false_sharing"]
    # A hand-over is a transfer, then a write that takes the other's copy: each a way to the other core.
    machine = run.record["machine"]
    cycles = run.record["measured_seconds"] * machine["hertz"] / stores
    assert 2 * machine["peer_cycles"] < cycles < 2.2 * machine["peer_cycles"]


def check_counter(folder: Path, threads: int, operations: int, seed: int = 1) -> None:
    run = met(folder, "counter", threads, operations, seed)
    assert sorted(run.printed["order"]) == sorted(list(range(threads)) * operations)
    moved_by_atomics(run, "first", threads)
    # Equal threads that want one line at once have it by turns, each for one transfer and one atomic.
    assert run.handovers > threads * operations - run.alone


def check_unpadded(folder: Path, threads: int, operations: int, seed: int = 1) -> None:
    run = met(folder, "unpadded", threads, operations, seed)
    line = run.line("unpadded")
    most = threads * operations - 1
    assert most - run.alone < line["transfers"] <= most
    assert line["coherence_misses"] == line["transfers"] - (threads - 1)
    assert line["false_transfers"] == line["transfers"]
    assert line["is_false_sharing"]
    assert sorted((w["low"], w["high"]) for w in line["writers"]) == [(8 * i, 8 * i + 8) for i in range(threads)]


def check_padded(folder: Path, threads: int, operations: int, seed: int = 1) -> None:
    run = met(folder, "padded", threads, operations, seed)
    assert run.record["measured"]["atomics"] >= threads * operations
    assert not {line["address"] for line in run.record["lines"]} & set(run.printed["lines"]["padded"])
    assert not [line for line in run.record["lines"] if line["is_false_sharing"] and line["owner"]["kind"] == "symbol"]


def check_treiber_stack(folder: Path, threads: int, operations: int, seed: int = 1) -> None:
    run = met(folder, "treiber-stack", threads, operations, seed)
    line = run.line("first")
    handovers, failures = run.handovers, run.printed["failures"]
    # Who changes the head after another thread has read it since: the line came to that reader, once.
    assert handovers - (threads - 1) <= line["coherence_misses"]
    # A write takes each other thread's copy at most once, and a failure makes at most two turns of writers more.
    assert line["coherence_misses"] <= (threads - 1) * (handovers + 2 * failures)
    assert line["transfers"] <= line["coherence_misses"] + threads - 1
    if threads == 2:
        assert line["transfers"] >= handovers
    assert not line["is_false_sharing"]


def check_ticket_lock(folder: Path, threads: int, operations: int, seed: int = 1) -> None:
    run = met(folder, "ticket-lock", threads, operations, seed)
    moved_by_atomics(run, "first", threads)
    # What the lock guards goes with it, by a read that leaves the former holder a copy, and a write that takes it.
    guarded = run.line("third")
    assert guarded["transfers"] == guarded["invalidations"] == run.handovers
    assert guarded["coherence_misses"] == run.handovers - (threads - 1)
    # Each release takes the word from all who wait, and each of them fetches it again.
    served = run.line("second")
    assert run.handovers - (threads - 1) <= served["coherence_misses"] <= (threads - 1) * len(run.printed["order"])
    # Who comes back has a ticket before all others had the lock: one line to fetch where they fetch three each. All but the
    # holder wait, but for the beginning and the end.
    assert served["coherence_misses"] > (threads - 1) * (run.handovers - run.alone)


def test_ping_pong(tmp_path: Path) -> None:
    check_ping_pong(tmp_path, 100)


def test_a_shared_counter(tmp_path: Path) -> None:
    check_counter(tmp_path, 3, 500)


def test_counters_in_one_line(tmp_path: Path) -> None:
    check_unpadded(tmp_path, 2, 500)


def test_counters_in_lines_of_their_own(tmp_path: Path) -> None:
    check_padded(tmp_path, 2, 500)


def test_a_treiber_stack(tmp_path: Path) -> None:
    check_treiber_stack(tmp_path, 2, 500)


def test_a_ticket_lock(tmp_path: Path) -> None:
    check_ticket_lock(tmp_path, 3, 200)


@pytest.mark.on_request
@pytest.mark.parametrize("seed", range(1, 6))
def test_long_runs(tmp_path: Path, seed: int) -> None:
    check_ping_pong(tmp_path, 2000, seed)
    for threads in (2, 4, 8):
        check_counter(tmp_path, threads, 1000, seed)
        check_unpadded(tmp_path, threads, 1000, seed)
        check_padded(tmp_path, threads, 1000, seed)
        check_treiber_stack(tmp_path, threads, 1000, seed)
        check_ticket_lock(tmp_path, threads, 1000, seed)

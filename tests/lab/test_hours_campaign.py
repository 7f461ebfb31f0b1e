# SPDX-License-Identifier: Apache-2.0
"""Runs of `soak --load` from within: who decides how servers share the machine, memory that runs out, and the page."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from heapyard.catalog.allocators import find_allocators
from heapyard.catalog.program_command import program_from_command
from heapyard.catalog.server_command import Load
from heapyard.execute.hours import campaign as campaign_module
from heapyard.execute.hours.campaign import NOTES, Campaign
from heapyard.execute.hours.launching import Conditions
from heapyard.execute.hours.notebook import Contents, read_notebook
from heapyard.model.errors import HeapyardError
from heapyard.model.hours import IN_TURNS, SIDE_BY_SIDE, HoursAnswer, Noted, Pass, Sample, Stretch
from heapyard.report.hours_page import render
from heapyard.stats.hours import Live, answer_of
from heapyard.store.locks import ExperimentLock

GIB = 1 << 30
SERVE = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True: server.accept()[0].close()
"""


def run(
    folder: Path, seconds: float, names: tuple[str, ...] = ("glibc", "bfm"), before: tuple[str, ...] = ()
) -> tuple[Contents, list[str]]:
    """What was noted, on file and to the user. `before`: words in front of the server's."""
    (folder / "serve.py").write_text(SERVE)
    words = [*before, sys.executable, "-IS", str(folder / "serve.py"), "{port}"]
    program = program_from_command(words, load=Load(("sleep 0.15 # {port}",)), cwd=folder)
    told: list[str] = []
    lock = ExperimentLock(folder)
    try:
        conditions = Conditions(program, folder, 0.05, False, threading.Event(), patience=5.0)
        Campaign(find_allocators(list(names)), conditions, seconds).run(lambda where: None, told.append)
    finally:
        lock.release()
    return read_notebook(folder / NOTES), told


def test_servers_that_leave_room_run_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_module.os, "sched_getaffinity", lambda pid: range(64))
    found, told = run(tmp_path, 1.0)
    assert found.mode == SIDE_BY_SIDE and found.complete and told[0].startswith("side by side: alone, servers and loads kept")
    assert all(server.seconds >= 1.0 and server.passes for server in found.servers.values())
    stretches = [stretch for server in found.servers.values() for stretch in server.stretches]
    assert [stretch.ended for stretch in stretches] == ["as it was asked to"] * 2


def test_servers_that_leave_none_run_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_module.os, "sched_getaffinity", lambda pid: range(0))
    found, _ = run(tmp_path, 2.4)
    assert found.mode == IN_TURNS and found.complete
    spans = sorted((sample.clock, name) for name, server in found.servers.items() for sample in server.samples)
    turns = [name for number, (_, name) in enumerate(spans) if number == 0 or spans[number - 1][1] != name]
    assert len(turns) >= 3  # by turns, and not one after the other


def test_memory_that_runs_out_ends_it_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_module, "free_bytes", lambda files: 1 << 20)
    found, told = run(tmp_path, 60.0, ("glibc",))
    assert not found.complete and told == [line for line in told if "ended before its time: only 1 MiB of" in line] and told
    assert found.servers["glibc"].stretches[0].ended == "as it was asked to"


def test_servers_without_room_are_refused_and_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_module, "has_room", lambda taken, free: "there is no room")
    with pytest.raises(HeapyardError, match="there is no room"):
        run(tmp_path, 1.0)
    assert all(s.ended for server in read_notebook(tmp_path / NOTES).servers.values() for s in server.stretches)


def test_a_server_that_another_malloc_serves_is_refused(tmp_path: Path) -> None:
    """The wrapper has the library, what it starts in the same process has not."""
    words = r"is not served by the library: process \d+ \(python.*\), started by the program, ran without libbfm"
    with pytest.raises(HeapyardError, match=words):
        run(tmp_path, 1.0, ("bfm",), ("/usr/bin/env", "-i"))


def test_the_page_has_every_hour_and_needs_no_script() -> None:
    at, random = np.arange(0, 4 * 3600, 60.0), np.random.default_rng(4)
    servers = []
    for name, rate in (("glibc", 900.0), ("jemalloc", 0.0)):
        rss = GIB + rate * at + random.normal(0, 1e5, len(at))
        samples = [Sample(1, t, 1e9 + t, int(v), int(v), int(v), 2, t / 2) for t, v in zip(at, rss, strict=True)]
        passes = [Pass(1, t, t + 60, {"request_rate": 100.0, "latency_p99": 0.02 + random.normal(0, 1e-4)}) for t in at]
        noted = Noted(name, [Stretch(1, 1e9, True, 7, 0.0)], samples, passes, [(90.0, "<careful>")])
        servers.append(answer_of(noted, 3600.0, "latency_p99", {1: Live(rss - GIB / 2)}))
    answer = HoursAnswer(
        "./server --port {port}", ("wrk",), tuple(servers), 4 * 3600.0, 3600.0, SIDE_BY_SIDE, "so", "latency_p99", True)
    page = render(answer)
    assert "<script" not in page and "&lt;careful&gt;" in page and "<careful>" not in page
    assert page.count("<svg") == 4 and page.count("3 to 4 h") == 2
    assert "MiB/h under glibc; no growth (" in page and "a leak, or data that the server keeps" in page

# SPDX-License-Identifier: Apache-2.0
"""No trace is larger than --limit, whatever the program does; what the file had no room for is counted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from profiled import only, traced

from heapyard.model.errors import UsageError
from heapyard.profile.chains import Naming
from heapyard.profile.instants import at_instant
from heapyard.profile.symbols import frames_of
from heapyard.profile.terminal import warnings

# Thousands of chains, hundreds of marks, threads and libraries, and memory that never stays as it was.
GREEDY = """
import ctypes, random, sys, threading
mark, pick, kept = ctypes.CDLL(None).heapyard_trace_mark, random.Random(1), []
def deep(frames, size):
    if frames == 0: return bytes(size)
    return eval("deep(%d, %d)" % (frames - 1, size)) if frames % 2 else deep(frames - 1, size)
def of_a_thread(): kept.append(bytes(5000))
for turn in range(4000):
    kept.append([deep(pick.randrange(40), pick.randrange(1000, 300000)) for _ in range(5)])
    if len(kept) > 200: del kept[: pick.randrange(150)]
    if turn % 10 == 5:  # when the nodes are used up
        mark(b"turn %d" % turn)
        thread = threading.Thread(target=of_a_thread); thread.start(); thread.join()
        ctypes.CDLL("./a_library_with_a_name_that_takes_room_%d.so" % (turn // 10)).allocate()
"""
LIBRARIES = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("greedy")
    (made / "library.c").write_text("#include <stdlib.h>\nvoid allocate(void) { *(volatile char*)malloc(100) = 1; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "library.so", "library.c"], cwd=made, check=True)
    whole = (made / "library.so").read_bytes()
    for number in range(LIBRARIES):
        (made / f"a_library_with_a_name_that_takes_room_{number}.so").write_bytes(whole)
    return made


@pytest.mark.parametrize(("mode", "limit"), [("sampled", 256 << 10), ("exact", 64 << 10)])
def test_a_greedy_program(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, limit: int):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    run = traced(tmp_path, "/usr/bin/python3", "-S", "-c", GREEDY, mode=mode, limit=limit, interval=1 << 12, never_step=True)
    trace = only(run)
    assert run.exit_code == 0 and trace.finished
    assert run.traces[0].stat().st_size <= limit
    lost = trace.end["lost"]
    marks = [snapshot for snapshot in trace.snapshots if snapshot.kind == "mark"]
    assert lost["marks"] == LIBRARIES - len(marks) > 0 and marks
    assert lost["nodes"] > 0
    if (mode, limit) == ("exact", 64 << 10):  # where all of them were seen
        assert lost["modules"] > 0
    if mode == "exact":
        assert len(trace.threads) == limit // 1024 < LIBRARIES and trace.threads[-1].name == "(all others)"
        assert sum(thread.allocations for thread in trace.threads) == trace.end["allocations"]
    for name in ("peak", "end"):  # beyond the nodes there is room for, callers own what they called for
        snapshot = trace.snapshot(name)
        assert snapshot is not None and snapshot.bytes.sum() == snapshot.total > 0
        naming = Naming(trace, frames_of(trace))
        outermost = {naming.chain(int(node))[-1].function for node in snapshot.nodes}
        # Of threads that came when the nodes were used up; whether one of their blocks is a sample is chance.
        assert name == "end" or mode == "sampled" or "[all frames, beyond the collector's limit]" in outermost
    with pytest.raises(UsageError, match=r"its marks are: turn 5, .*[.]{3}$") as error:
        at_instant(trace, "mark:turn 3995")
    assert error.value.remedy == f"{lost['marks']:,} others found no room in the file; --limit raises it."
    told = "\n".join(warnings(trace))
    assert f"{lost['marks']:,} marks" in told and "--limit raises it" in told


def test_without_need_nothing_is_left_out(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    trace = only(traced(tmp_path, "/usr/bin/python3", "-S", "-c", GREEDY, interval=1 << 12))
    lost = trace.end["lost"]
    assert (lost["marks"], lost["nodes"], lost["modules"]) == (0, 0, 0)
    assert sum(snapshot.kind == "mark" for snapshot in trace.snapshots) == LIBRARIES

# SPDX-License-Identifier: Apache-2.0
"""Python's functions and lines in call chains, and its small objects, for each Python that is here."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from profiled import doubt, only, traced

from heapyard.execute.collector import Collector, Plan
from heapyard.profile.account import fullest
from heapyard.profile.chains import Naming
from heapyard.profile.symbols import Frame, frames_of
from heapyard.profile.trace import Snapshot, Trace, load_trace


def pythons() -> dict[str, str]:
    """The version of each whose frames are known -> its path. HEAPYARD_PYTHON: the path of one more."""
    found = {}
    more = filter(None, [os.environ.get("HEAPYARD_PYTHON")])
    for path in ["/usr/bin/python3", *map(str, sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))), *more]:
        told = subprocess.run([path, "-Ic", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True)
        if told.returncode == 0 and (3, 8) <= tuple(map(int, told.stdout.split("."))) < (3, 15):
            found.setdefault(told.stdout.strip(), path)
    return dict(sorted(found.items(), key=lambda item: int(item[0].partition(".")[2])))


PYTHONS = pythons()
each_python = pytest.mark.parametrize("version", PYTHONS)
# Where the interpreter's functions are looked up too, which takes seconds: the oldest and the newest.
few_pythons = pytest.mark.parametrize("version", dict.fromkeys([*list(PYTHONS)[:1], *list(PYTHONS)[-1:]]))

# What is kept by a line that ends in `# <tag>`; told by the interpreter itself.
OBJECTS = """
import ctypes, json, sys, threading, time
def tuples(number):
    return [(at, None) for at in range(number)]  # tuples
class Maker:
    def texts(self, number):
        kept = []
        for at in range(number): kept.append(str(at))  # texts
        return kept
def générés(number):
    for at in range(number):
        yield at * 0.5  # floats
def key(value):
    made.append(bytes(value % 100))  # called
    return value
made = []
def in_thread(number):
    kept["thread"] = [bytearray(100) for _ in range(number)]  # thread
kept = {}
def main():
    kept["tuples"] = tuples(40_000)
    kept["texts"] = Maker().texts(40_000)
    kept["floats"] = list(générés(80_000))
    sorted(range(20_000), key=key)
    kept["called"] = made
    thread = threading.Thread(target=in_thread, args=(10_000,)); thread.start(); thread.join()
main()
ctypes.CDLL(None).heapyard_trace_mark(b"kept"); time.sleep(0.1)
def size(tag):
    numbers = sum(sys.getsizeof(o[0]) for o in kept[tag] if o[0] > 256) if tag == "tuples" else 0
    return numbers + sum(map(sys.getsizeof, kept[tag]))
with open(sys.argv[1], "w") as told: json.dump({tag: size(tag) for tag in kept}, told)
"""


def line_of(script: str, tag: str) -> int:
    return next(number for number, line in enumerate(script.splitlines(), 1) if line.endswith(f"# {tag}"))


class Owned:
    """Bytes by the line of a script's innermost function."""

    def __init__(self, trace: Trace, snapshot: Snapshot):
        trace.symbols = {"0": {"0": []}}  # only a script's functions are asked for
        naming = Naming(trace, frames_of(trace))
        self.bytes: dict[int, int] = defaultdict(int)
        self.chains: dict[int, list[list[str]]] = defaultdict(list)
        for node, size in zip(snapshot.nodes.tolist(), snapshot.bytes.tolist(), strict=True):
            scripts = [frame for frame in naming.chain(node) if is_of_script(frame)]
            if scripts:
                self.bytes[scripts[0].line] += size
                self.chains[scripts[0].line].append([frame.function.rpartition(".")[2] for frame in scripts])


def is_of_script(frame: Frame) -> bool:
    return frame.is_script and frame.file.endswith("script.py")


def run(tmp_path: Path, version: str, script: str, **plan: Any) -> tuple[Trace, dict[str, int]]:
    (tmp_path / "script.py").write_text(script)
    output = tmp_path / "output"
    found = traced(tmp_path, PYTHONS[version], "-S", tmp_path / "script.py", output, **plan)
    assert found.exit_code == 0
    return only(found), json.loads(output.read_text())


def kept_in(trace: Trace) -> Snapshot:
    found = trace.snapshot("mark")
    assert found is not None and found.name == "kept"
    return found


@each_python
def test_small_objects_are_their_functions(tmp_path: Path, version: str) -> None:
    trace, truth = run(tmp_path, version, OBJECTS, python=True, interval=1 << 12)
    owned = Owned(trace, kept_in(trace))
    for tag, size in truth.items():
        line = line_of(OBJECTS, tag)
        # With the list that holds them.
        most = size * 1.25 + 8 * 1.2 * 80_000 + doubt(trace, size)
        assert 0.98 * size - doubt(trace, size) < owned.bytes[line] < most, tag
    callers = {tag: max(owned.chains[line_of(OBJECTS, tag)], key=len) for tag in truth}
    assert callers["texts"][-2:] == ["main", "<module>"] and callers["texts"][0] == "texts"
    assert callers["floats"][0] == "générés" and callers["floats"][-2:] == ["main", "<module>"]
    assert callers["called"][0] == "key" and callers["called"][-2:] == ["main", "<module>"]
    assert "in_thread" in callers["thread"] and "main" not in callers["thread"]


@few_pythons
def test_every_object_where_every_event_is_recorded(tmp_path: Path, version: str) -> None:
    env = {**os.environ, "PYTHONMALLOC": "malloc"}
    trace, truth = run(tmp_path, version, OBJECTS, mode="exact", python=True, env=env, never_step=True)
    owned = Owned(trace, kept_in(trace))
    # A pointer in a list that has room for more, and numbers that are larger than they say.
    lists = {"tuples": 40_000, "texts": 40_000, "called": 20_000, "thread": 10_000}
    for tag, objects in lists.items():
        size = owned.bytes[line_of(OBJECTS, tag)]
        assert truth[tag] <= size < truth[tag] + (8 * 1.3 + 4) * objects + 4096, tag
    floats = owned.bytes[line_of(OBJECTS, "floats")]
    assert truth["floats"] - 200 * 24 <= floats <= truth["floats"] + 4096  # some of those that were free already serve


@each_python
def test_without_being_asked_blocks_and_arenas_have_functions(tmp_path: Path, version: str) -> None:
    trace, truth = run(tmp_path, version, OBJECTS, interval=1 << 12)
    account = fullest(trace.accounts)
    assert account is not None
    mapped = Owned(trace, account.of_mappings())
    small = sum(truth[tag] for tag in ("tuples", "texts", "floats", "called"))
    assert sum(mapped.bytes.values()) > 0.7 * small
    assert mapped.bytes[line_of(OBJECTS, "tuples")] > 0.5 * truth["tuples"]


def test_a_debugging_allocator_is_left_alone(tmp_path: Path) -> None:
    version = next(iter(PYTHONS))
    env = {**os.environ, "PYTHONMALLOC": "debug"}
    trace, truth = run(tmp_path, version, OBJECTS, python=True, env=env, interval=1 << 12)
    assert truth["tuples"] > 0 and trace.finished


FORKS = """
import os, sys
def before(): return [bytes(3000) for _ in range(3000)]
def after(): return [bytes(3000) for _ in range(2000)]  # after
kept = before()
if os.fork() == 0:
    more = after()
else:
    os.wait()
"""


def test_a_forked_child_tells_its_functions_anew(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(FORKS)
    found = traced(tmp_path, next(iter(PYTHONS.values())), "-S", tmp_path / "script.py", interval=1 << 12)
    assert len(found.traces) == 2
    child = max((load_trace(path) for path in found.traces), key=lambda trace: trace.meta["pid"])
    snapshot = child.snapshot("peak")
    assert snapshot is not None
    owned = Owned(child, snapshot)
    assert 0.8 * 2000 * 3033 < owned.bytes[line_of(FORKS, "after")] < 1.2 * 2000 * 3033


SERVER = """
import sys, time
def handle(number): return [(at, at) for at in range(number)]  # served
kept = []
print("ready", flush=True)
for _ in range(600):
    kept.append(handle(2000))
    time.sleep(0.01)
"""


@few_pythons
def test_a_running_one_is_attached_to(tmp_path: Path, version: str) -> None:
    (tmp_path / "script.py").write_text(SERVER)
    with subprocess.Popen([PYTHONS[version], "-S", str(tmp_path / "script.py")], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stdout.readline() == "ready\n"
        command = [sys.executable, "-I", "-m", "heapyard", "profile", "--python", "--attach", str(server.pid), "--for", "1s",
                   "--interval", "4K", "--no-html", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        assert server.poll() is None  # and it goes on
        server.send_signal(signal.SIGTERM)
    end = next(s for s in json.loads(done.stdout)["snapshots"] if s["kind"] == "end")
    of_line = [chain for chain in end["chains"]
               if any(f["function"].endswith("handle") and f["line"] == line_of(SERVER, "served") for f in chain["frames"])]
    assert sum(chain["bytes"] for chain in of_line) > 0.7 * end["bytes"] > 0


SCRIPT = """
import time
class Tree:
    def grow(self, number):
        return [bytes(2000) for _ in range(number)]
def build(number):
    return Tree().grow(number)
def load(number):
    return {at: bytes(3000) for at in range(number)}
def main():
    kept = build(10_000), load(5_000)
    time.sleep(0.1)
main()
"""


@pytest.mark.parametrize("version", list(PYTHONS)[:1])  # the functions of a newer interpreter take half a minute to look up
def test_functions_are_shown(tmp_path: Path, version: str) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-I", "-m", "heapyard", "profile", "--python", "--no-html", "--mode", "exact", "--never-step",
               "--json", "-o", str(tmp_path / "kept.hytrace"), "--", PYTHONS[version], str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    owned: dict[str, int] = defaultdict(int)
    peak = next(s for s in json.loads(done.stdout)["snapshots"] if s["kind"] == "peak")
    for chain in peak["chains"]:
        functions = {frame["function"].rpartition(".")[2] for frame in chain["frames"] if frame["file"].endswith("script.py")}
        for function in functions:
            owned[function] += chain["bytes"]
    assert owned["grow"] <= owned["build"] < owned["grow"] + 1000  # up to 3.10 a function's frame is its caller's
    assert 10_000 * 2_000 < owned["build"] < 10_000 * 2_100
    assert 5_000 * 3_000 < owned["load"] < 5_000 * 3_200
    assert owned["main"] >= owned["build"] + owned["load"]
    largest = max(peak["chains"], key=lambda chain: chain["bytes"])
    callers = [frame["function"].rpartition(".")[2] for frame in largest["frames"] if frame["file"].endswith("script.py")]
    assert callers[-3:] == ["build", "main", "<module>"], largest


def test_small_objects_under_a_heap_that_samples_itself(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.replace("2000", "200"))
    python = next(iter(PYTHONS.values()))
    command = [sys.executable, "-I", "-m", "heapyard", "profile", "--python", "--allocator", "heapyard", "--no-html", "--json",
               "--interval", "4K", "--", python, str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    peak = next(s for s in json.loads(done.stdout)["snapshots"] if s["kind"] == "peak")
    grown = sum(chain["bytes"] for chain in peak["chains"] if any(f["function"].endswith("grow") for f in chain["frames"]))
    assert 0.8 * 10_000 * 233 < grown < 1.3 * 10_000 * 233
    refused = subprocess.run([*command[:5], "--python", "--mode", "pages", "--", "true"], capture_output=True, text=True)
    assert refused.returncode == 2 and "--python records objects" in refused.stderr


DEEP = """
def down(left):
    return [bytes(5000) for _ in range(300)] if left == 0 else [down(left - 1)]  # deep
import ctypes, sys, time
sys.setrecursionlimit(5000)
kept = down(900)
ctypes.CDLL(None).heapyard_trace_mark(b"kept")
"""


@few_pythons
def test_a_deep_recursion_ends_where_chains_are_cut(tmp_path: Path, version: str) -> None:
    (tmp_path / "script.py").write_text(DEEP)
    trace = only(traced(tmp_path, PYTHONS[version], "-S", tmp_path / "script.py", interval=1 << 12))
    owned = Owned(trace, kept_in(trace))
    [line] = [line for line in owned.bytes if line == line_of(DEEP, "deep")]
    assert owned.bytes[line] > 0.7 * 300 * 5000
    assert trace.end["chains_cut"] > 0
    for chain in owned.chains[line]:
        assert len(chain) > 60 and set(chain[1:]) <= {"down", "<listcomp>"}


PERF = """
def build(): return [bytes(5000) for _ in range(3000)]  # built
import ctypes, time
kept = build()
ctypes.CDLL(None).heapyard_trace_mark(b"kept")
"""


@pytest.mark.skipif("3.12" not in PYTHONS, reason="there is no Python 3.12 here")
def test_functions_that_python_tells_perf_are_not_twice_in_a_chain(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PERF)
    trace = only(traced(tmp_path, PYTHONS["3.12"], "-S", "-X", "perf", tmp_path / "script.py", interval=1 << 12))
    owned = Owned(trace, kept_in(trace))
    assert owned.bytes[line_of(PERF, "built")] > 0.7 * 3000 * 5000
    assert set(map(tuple, owned.chains[line_of(PERF, "built")])) == {("build", "<module>")}


OWN_TESTS = ["test_threading", "test_generators", "test_coroutines", "test_gc", "test_thread", "test_exceptions", "test_weakref",
             "test_dict", "test_list", "test_set", "test_json", "test_tracemalloc", "test_code"]


@pytest.mark.on_request
@pytest.mark.parametrize("small_objects", [False, True], ids=["blocks", "objects"])
@each_python
def test_pythons_own_tests_end_as_they_do_untraced(tmp_path: Path, version: str, small_objects: bool) -> None:
    command = [PYTHONS[version], "-m", "test", "-v", *OWN_TESTS]
    if subprocess.run([PYTHONS[version], "-c", "import test.test_list"], capture_output=True).returncode != 0:
        pytest.skip("this Python comes without its tests")

    def outcomes(env: dict[str, str]) -> dict[str, str]:
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
        return dict(re.findall(r"^(test\w+ \([\w.]+\)).* \.\.\. (ok|FAIL|ERROR)$", done.stdout + done.stderr, re.MULTILINE))

    untraced = outcomes(dict(os.environ))
    collector = Collector(tmp_path, Plan(command, python=small_objects, interval=1 << 9))
    try:
        found = outcomes({**os.environ, **collector.environment})
    finally:
        collector.close()
    differ = {name for name in untraced if found.get(name) != untraced[name]}
    assert len(untraced) > 500 and not differ

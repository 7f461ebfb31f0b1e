# SPDX-License-Identifier: Apache-2.0
"""The tracer among forks, signals, unloaded libraries, killed programs and killed collectors."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from profiled import functions_at_end, may_become_another_user, nothing_is_left, only, program, traced

from heapyard.model import places
from heapyard.model.errors import UsageError
from heapyard.profile.chunks import chunks_of
from heapyard.profile.trace import load_trace
from heapyard.execute.collector import Collector, Plan

KILLS = 30
HEAPS = ["bfm", "scalloc", "elfmalloc"]
WAYS = ["sampled", "exact", *(f"within {heap}" for heap in HEAPS)]


RUST = """
#[inline(never)] fn kept_by_main() { for _ in 0..1000 { std::mem::forget(std::hint::black_box(vec![1u8; 1000])); } }
#[inline(never)] fn kept_by_thread() { for _ in 0..500 { std::mem::forget(std::hint::black_box(vec![1u8; 2000])); } }
fn main() {
    kept_by_main();
    for thread in (0..3).map(|_| std::thread::spawn(kept_by_thread)).collect::<Vec<_>>() { thread.join().unwrap(); }
}
"""


# Writes over what it shares with the collector: sizes of records, places in rings, sets, anything.
SCRIBBLER = """
import ctypes, random, re, sys
pick = random.Random(int(sys.argv[1]))
[line] = [line for line in open("/proc/self/maps") if "heapyard-trace" in line]
begin, end = (int(part, 16) for part in re.match("(\\w+)-(\\w+)", line).groups())
for turn in range(300):
    kept = [bytes(100 + turn) for _ in range(200)]
    at = begin + pick.choice([pick.randrange(8, 1 << 12), pick.randrange(min(end - begin, 4 << 20))]) // 8 * 8
    value = pick.choice([pick.getrandbits(64), pick.getrandbits(59), pick.randrange(17) << 56 | pick.getrandbits(20), 0])
    ctypes.c_uint64.from_address(at).value = value
"""


def plan(way: str) -> dict[str, Any]:
    """Of a mode in front of malloc, or of samples from within a heap."""
    mode, _, heap = way.partition(" ")
    return {"mode": "sampled", "library": places.native(f"lib{heap}-sampled.so"), "told_by_heap": True} if heap else {"mode": mode}


@pytest.mark.parametrize("way", WAYS)
def test_forks_of_a_program_with_threads(tmp_path: Path, way: str):
    run = traced(tmp_path, program("subject"), "forks", **plan(way), interval=1 << 12)
    assert run.exit_code == 0
    traces = [load_trace(path) for path in run.traces]
    assert all(trace.finished for trace in traces)
    # Numbers of processes begin anew: the parent is the one that no traced process began.
    [parent] = [t for t in traces if t.meta["parent"] not in {x.meta["pid"] for x in traces}]
    children = [t for t in traces if t.meta["parent"] == parent.meta["pid"] and t.program == "subject"]
    assert len(children) == 30
    # A child owns what it allocated itself, and nothing of its parent's.
    for child in children:
        owned = functions_at_end(child)
        mine = sum(size for name, size in owned.items() if "kept_by_child" in name)
        assert 250_000 < mine < 400_000
        assert not any("kept_by_parent" in name for name in owned)
    assert nothing_is_left() == []


@pytest.mark.skipif(not may_become_another_user(), reason="only root has rights to give up")
@pytest.mark.parametrize("way", WAYS)
def test_a_child_that_gives_up_the_rights_of_root(tmp_path: Path, way: str):
    run = traced(tmp_path, program("subject"), "gives-up-rights", **plan(way), interval=1 << 12)
    assert run.exit_code == 0
    owned = [functions_at_end(load_trace(path)) for path in run.traces]
    assert len(owned) == 2 and sum("kept_by_child" in name for functions in owned for name in functions) == 1


def test_a_stranger_is_not_heard(tmp_path: Path):
    """Whoever does not know the token leaves nothing behind, and nobody waits for it."""
    collector = Collector(tmp_path, Plan(["subject"]))
    *_, token, path = collector.wish.split(":")
    for said in (b"s", token[:-1].encode(), token.encode() + b"0", b"x" * 100):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger, (tmp_path / "memory").open("w+b") as memory:
            memory.truncate(1 << 20)
            stranger.connect(path)
            socket.send_fds(stranger, [said], [memory.fileno(), memory.fileno()])
    child = subprocess.run([program("subject"), "stack-bounds"], capture_output=True, env={**os.environ, **collector.environment})
    files = [os.readlink(link) for link in Path(f"/proc/{collector.pid}/fd").iterdir()]
    collector.close()
    assert child.stdout == b"done\n" and len(list(tmp_path.glob("*.hytrace"))) == 1
    assert not any("memory" in Path(name).name for name in files), files


def test_execs_begin_anew(tmp_path: Path):
    run = traced(tmp_path, "sh", "-c", "env ls /; exec env ls /", mode="exact")
    names = [load_trace(path).program for path in run.traces]
    assert run.exit_code == 0 and names.count("env") == 2 and names.count("ls") == 2 and len(names) >= 5, names


@pytest.mark.parametrize("way", ["sampled", "exact"])
def test_a_program_among_many_that_begin_and_end(tmp_path: Path, way: str):
    """As in a build: no trace is cut short, nobody waits until all newcomers are welcomed, it is told how each ended."""
    again = tmp_path / "again.sh"
    again.write_text('[ "$1" = 0 ] || exec /bin/sh "$0" $(($1 - 1))\n')
    storm = f"""for chain in 1 2 3; do /bin/sh {again} 200 & done
        for turn in $(/usr/bin/seq 40); do /bin/echo short & /bin/sleep 2 & /bin/echo short & done
        {program("subject")} spin-a-while; wait"""
    run = traced(tmp_path / "traces", "/bin/sh", "-c", storm, mode=way, never_step=True)
    traces = [load_trace(path) for path in run.traces]
    shell = Path("/bin/sh").resolve().name
    ends = Counter((trace.program, trace.end["how"]) for trace in traces if trace.program in ("echo", "sleep", shell))
    assert ends["echo", "ended"] == 80 and ends["sleep", "ended"] == 40 and ends[shell, "ended"] == 4, ends
    executed = ends.pop((shell, "executed another program"))
    assert executed >= 600 and sum(ends.values()) == 124, ends
    assert all(trace.end["microseconds"] > 1_900_000 for trace in traces if trace.program == "sleep")
    [subject] = [trace for trace in traces if trace.program == "subject"]
    # A collector that is away all the time loses six for each that it sees; others' load makes it late, not absent.
    assert subject.end["lost"]["ring_full"] < 2 * subject.end["events"], subject.end
    assert nothing_is_left() == []


@pytest.mark.parametrize("by", [["--pid", "--fork", "--mount-proc"], ["--user", "--map-root-user", "--pid", "--fork"]])
def test_a_program_in_a_pid_namespace_of_its_own(tmp_path: Path, by: list[str]):
    """It knows itself as process 1, which is another one outside."""
    if subprocess.run(["unshare", *by, "/bin/true"], capture_output=True).returncode != 0:
        pytest.skip("namespaces are not permitted here")
    (tmp_path / "named.py").write_text(
        "import threading, time\n"
        "def run():\n"
        "    kept = [bytes(1000 + i) for i in range(3000)]\n"
        "    time.sleep(0.5)\n"
        "for turn in range(2): threading.Thread(target=run).start()\n"
    )
    run = traced(tmp_path / "traces", "unshare", *by, "/usr/bin/python3", tmp_path / "named.py", mode="exact", never_step=True)
    assert run.exit_code == 0
    traces = {trace.meta["pid"]: trace for path in run.traces for trace in [load_trace(path)]}
    [inside] = [trace for trace in traces.values() if trace.program.startswith("python3")]
    assert 1 not in traces and inside.meta["parent"] in traces
    assert inside.end["how"] == "ended" and inside.end["microseconds"] > 400_000 and not any(inside.end["lost"].values())
    assert len(inside.threads) == 3 and "python3" in {thread.name for thread in inside.threads}
    assert nothing_is_left() == []


def test_unloaded_libraries_keep_their_names(tmp_path: Path):
    plugin = program("libplugin.so")
    run = traced(tmp_path, program("subject"), "loads", plugin, mode="exact", never_step=True)
    assert run.exit_code == 0
    assert functions_at_end(only(run)).get("plugin_allocates") == 25 * 50_000


@pytest.mark.parametrize("way", WAYS)
def test_signals_and_errno(tmp_path: Path, way: str):
    assert traced(tmp_path, program("subject"), "signals", **plan(way), interval=1 << 8).exit_code == 0


@pytest.mark.parametrize("way", WAYS)
def test_threads_in_succession_give_their_rings_back(tmp_path: Path, way: str):
    run = traced(tmp_path, program("subject"), "many-threads", **plan(way), interval=1 << 6, never_step=True)
    trace = only(run)
    assert run.exit_code == 0 and trace.end["lost"]["no_ring"] == 0
    assert sum(thread.allocations for thread in trace.threads) >= (3000 if way == "exact" else 2500)
    assert functions_at_end(trace).get("kept_by_parent(unsigned long)", 0) == 0


MARKS_WHEN_FULL = """
import ctypes
mark = ctypes.CDLL(None).heapyard_trace_mark
for _ in range(100000): bytes(4000)
print("full", flush=True)
mark(b"kept")
print("marked", flush=True)
"""


@pytest.mark.parametrize("back", [True, False], ids=["late", "never"])
def test_a_mark_waits_for_a_collector_that_is_late(tmp_path: Path, back: bool):
    """A sample finds no room and is counted. A mark waits until the collector is back, or a second if that shows no life."""
    collector = Collector(tmp_path, Plan(["python3"], interval=1 << 6))
    os.kill(collector.pid, signal.SIGSTOP)
    with subprocess.Popen(["/usr/bin/python3", "-S", "-c", MARKS_WHEN_FULL], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, **collector.environment, "PYTHONMALLOC": "malloc"}) as child:
        assert child.stdout is not None and child.stdout.readline() == "full\n"
        if back:
            time.sleep(0.3)
            os.kill(collector.pid, signal.SIGCONT)
        assert child.stdout.readline() == "marked\n"
        os.kill(collector.pid, signal.SIGCONT)
    collector.close()
    trace = load_trace(next(tmp_path.glob("*.hytrace")))
    assert trace.end["lost"]["ring_full"] > 0
    assert [snapshot.name for snapshot in trace.snapshots if snapshot.kind == "mark"] == ["kept"] * back


@contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """A file system of its own, in a file."""
    image, place = folder / "image", folder / "place"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    made = [["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, place]]
    if shutil.which("mkfs.ext4") is None or any(subprocess.run(words, capture_output=True).returncode != 0 for words in made):
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_disk_that_stands_still_keeps_nobody_waiting(tmp_path: Path):
    """As one does that is busy with what others write: rings are read, programs come and go, the traces follow later."""
    with mounted(tmp_path) as folder:
        collector = Collector(folder, Plan(["subject"], interval=1 << 14))
        if subprocess.run(["fsfreeze", "--freeze", folder], capture_output=True).returncode != 0:
            collector.close()
            pytest.skip("no file system can be made to stand still here")
        try:
            for _ in range(2):
                subprocess.run([program("subject"), "spin-a-while"], env={**os.environ, **collector.environment},
                               check=True, capture_output=True, timeout=60)
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", folder], check=True)
        collector.close()
        traces = [load_trace(path) for path in folder.glob("*.hytrace")]
    assert len(traces) == 2
    for trace in traces:
        assert trace.end["how"] == "ended" and trace.end["lost"]["ring_full"] < trace.end["events"] // 10, trace.end
        assert trace.end["events"] > 10_000


@pytest.mark.parametrize("way", WAYS)
def test_threads_in_succession_need_no_collector_meanwhile(tmp_path: Path, way: str):
    """Three times as many threads as rings while the collector stands still: the next takes the ring that the last one left."""
    collector = Collector(tmp_path, Plan(["subject"], **plan(way), interval=1 << 10))
    os.kill(collector.pid, signal.SIGSTOP)
    child = subprocess.run([program("subject"), "many-threads"], stdout=subprocess.PIPE, timeout=60,
                           env={**os.environ, **collector.environment})
    os.kill(collector.pid, signal.SIGCONT)
    collector.close()
    assert child.stdout == b"done\n"
    trace = load_trace(next(tmp_path.glob("*.hytrace")))
    assert all(count == 0 for count in trace.end["lost"].values()), trace.end["lost"]
    assert len(trace.threads) > 2000
    assert {round(thread.bytes / 2000) for thread in trace.threads if thread.id != trace.meta["pid"]} == {0}
    assert functions_at_end(trace).get("kept_by_parent(unsigned long)", 0) == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_thread_that_asks_for_its_stack_does_not_wait_for_itself(tmp_path: Path, way: str):
    run = traced(tmp_path, "timeout", "20", program("subject"), "stack-bounds", **plan(way), interval=1 << 6)
    assert run.exit_code == 0
    subject = next(t for t in map(load_trace, run.traces) if t.program == "subject")
    assert sum(thread.allocations for thread in subject.threads) >= 50


@pytest.mark.skipif(shutil.which("rustc") is None, reason="no compiler of Rust")
def test_a_program_in_rust_with_threads(tmp_path: Path):
    (tmp_path / "it.rs").write_text(RUST)
    subprocess.run(["rustc", "-g", "-O", "it.rs"], cwd=tmp_path, check=True)
    run = traced(tmp_path / "traces", "timeout", "20", tmp_path / "it", mode="exact", never_step=True)
    assert run.exit_code == 0
    owned = functions_at_end(next(t for t in map(load_trace, run.traces) if t.program == "it"))
    assert sum(size for name, size in owned.items() if name.endswith("kept_by_main")) == 1000 * 1000
    assert sum(size for name, size in owned.items() if name.endswith("kept_by_thread")) == 3 * 500 * 2000


@pytest.mark.parametrize("way", ["sampled", "exact", "within bfm"])  # others have reserved theirs before the limit is set
def test_no_memory_is_no_crash(tmp_path: Path, way: str, capfd: pytest.CaptureFixture[str]):
    run = traced(tmp_path, program("subject"), "out-of-memory", **plan(way))
    assert run.exit_code == 0
    out, _ = capfd.readouterr()
    blocks = int(out.splitlines()[0])
    trace = only(run)
    full = next(s for s in trace.snapshots if s.name == "full")
    assert full.total == pytest.approx(blocks << 20, rel=0.01 if way == "exact" else 0.05)


@pytest.mark.parametrize("way", ["sampled", "exact"])
def test_little_address_space(tmp_path: Path, way: str, capfd: pytest.CaptureFixture[str]):
    """Most of it is left to the program, which then has fewer rings; where even that is too much, it is said who is not traced."""
    words = "import threading; kept = [bytes(5000) for _ in range(1000)]; print(len(kept))"
    least = {"sampled": 128 << 10, "exact": 1 << 20}[way]
    for kilobytes, is_traced in ((least, True), (least - 1, False)):
        command = f"ulimit -v {kilobytes}; exec /usr/bin/python3 -S -c '{words}'"
        run = traced(tmp_path / str(kilobytes), "/bin/sh", "-c", command, mode=way, interval=1 << 12)
        out, err = capfd.readouterr()
        assert run.exit_code == 0 and out == "1000\n"
        pythons = [trace for trace in map(load_trace, run.traces) if trace.program.startswith("python3")]
        assert [trace.peak_bytes > 4_000_000 for trace in pythons] == [True] * is_traced
        assert ("is not traced: it may not have the memory" in err) != is_traced


@pytest.mark.parametrize("way", ["sampled", "exact", "within bfm"])
def test_a_malloc_of_the_programs_own(tmp_path: Path, way: str, capfd: pytest.CaptureFixture[str]):
    """None of its blocks is seen, but what it maps would be; others beside it are traced as ever."""
    own = program("own_malloc")
    run = traced(tmp_path / "own", "/bin/sh", "-c", f"{own}; {own}; /usr/bin/python3 -S -c pass", **plan(way))
    out, err = capfd.readouterr()
    assert run.exit_code == 0 and (out, err) == ("done\ndone\n", "")
    found = [load_trace(path) for path in run.traces]
    assert [trace.end["allocations"] for trace in found if trace.program == "own_malloc"] == [0, 0]
    assert any(trace.program.startswith("python3") and trace.peak_bytes > 0 for trace in found)


PASSING_ON = """
#define _GNU_SOURCE
#include <dlfcn.h>
void* malloc(unsigned long size) { return ((void* (*)(unsigned long))dlsym(RTLD_NEXT, "malloc"))(size); }
void free(void* block) { ((void (*)(void*))dlsym(RTLD_NEXT, "free"))(block); }
int main(void) { for (int i = 0; i < 1000; ++i) *(char*)malloc(1000) = 1; }
"""


def test_a_malloc_that_passes_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    (tmp_path / "passes.c").write_text(PASSING_ON)
    subprocess.run(["cc", "-rdynamic", "-fno-builtin", "-o", "passes", "passes.c"], cwd=tmp_path, check=True)
    trace = only(traced(tmp_path / "trace", tmp_path / "passes", mode="exact"))
    assert trace.snapshot("end").total >= 1_000_000 and capfd.readouterr().err == ""


def spinning(collector: Collector) -> subprocess.Popen[bytes]:
    child = subprocess.Popen([program("subject"), "spin"], stdout=subprocess.PIPE, env={**os.environ, **collector.environment})
    assert child.stdout is not None and child.stdout.readline() == b"spinning\n"
    return child


@pytest.mark.parametrize("way", ["sampled", "exact", "within bfm"])
def test_a_killed_program_leaves_a_whole_profile(tmp_path: Path, way: str):
    """kill -9 at random times: what it owned then is the end of its trace."""
    pick = random.Random(1)
    collector = Collector(tmp_path, Plan(["subject"], **plan(way)))
    for _ in range(KILLS // 2):
        child = spinning(collector)
        time.sleep(pick.random() * 0.1)
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
    collector.close()
    traces = [load_trace(path) for path in sorted(tmp_path.glob("*.hytrace"))]
    assert len(traces) == KILLS // 2
    for trace in traces:
        assert trace.finished and trace.end["how"] == "ended"
        kept = sum(size for name, size in functions_at_end(trace).items() if "kept_at_start" in name)
        assert kept == (4_000_000 if way == "exact" else pytest.approx(4_000_000, rel=1e-3))
    assert nothing_is_left() == []


@pytest.mark.parametrize("way", ["sampled", "exact"])
def test_a_program_that_writes_over_its_rings(tmp_path: Path, way: str):
    """Whatever it has written there: the collector ends, and its file opens."""
    for seed in range(20):
        folder = tmp_path / str(seed)
        collector = Collector(folder, Plan(["python3"], **plan(way)))
        subprocess.run([sys.executable, "-c", SCRIBBLER, str(seed)], env={**os.environ, **collector.environment}, timeout=60)
        collector._process.stdin.close()
        assert collector._process.wait(timeout=60) == 0
        collector.close()
        [path] = folder.glob("*.hytrace")
        trace = load_trace(path)
        assert trace.finished and trace.meta["mode"] == way
        # What the collector goes by is its own.
        assert trace.end["mode"] in (way, "sampled") and (trace.end["interval"] == 0) == (trace.end["mode"] == "exact")
        assert 0 < trace.end["microseconds"] < 60e6
    assert nothing_is_left() == []


@pytest.mark.parametrize("way", ["sampled", "exact", "within scalloc"])
def test_a_killed_collector_harms_nobody(tmp_path: Path, way: str):
    """kill -9 at random times: the program goes on to its end and its answer, and the file opens up to the kill."""
    pick = random.Random(2)
    for turn in range(KILLS // 10):
        folder = tmp_path / str(turn)
        collector = Collector(folder, Plan(["subject"], **plan(way)))
        child = subprocess.Popen([program("subject"), "spin-a-while"], stdout=subprocess.PIPE,
                                 env={**os.environ, **collector.environment})
        time.sleep(0.02 + pick.random() * 0.3)
        os.kill(collector.pid, signal.SIGKILL)
        out, _ = child.communicate(timeout=30)
        assert child.returncode == 0 and out.endswith(b"done\n")
        collector.close()
        for path in folder.glob("*.hytrace"):
            try:
                trace = load_trace(path)
            except UsageError as error:
                assert "cut off" in error.message or "no trace" in error.message
                continue
            assert not trace.finished
    assert nothing_is_left() == []


def test_a_trace_cut_anywhere_opens(tmp_path: Path):
    run = traced(tmp_path, program("truth"), tmp_path / "told", 4, 20_000, 2, mode="exact")
    [path] = run.traces
    data = path.read_bytes()
    whole = len(chunks_of(path)[0])
    pick = random.Random(3)
    cut = tmp_path / "cut.hytrace"
    for _ in range(60):
        cut.write_bytes(data[: pick.randrange(len(data))])
        try:
            trace = load_trace(cut)
        except UsageError:
            assert cut.stat().st_size < 1000
            continue
        assert not trace.finished and len(chunks_of(cut)[0]) <= whole
        # A byte gone bad is found, not believed.
    for _ in range(60):
        place = pick.randrange(17, len(data))
        spoiled = bytearray(data)
        spoiled[place] ^= 0x40
        cut.write_bytes(bytes(spoiled))
        try:
            load_trace(cut)
        except UsageError:
            pass

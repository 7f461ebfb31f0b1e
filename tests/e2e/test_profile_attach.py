# SPDX-License-Identifier: Apache-2.0
"""Tracing processes that run already: exact from then on, and they go on unharmed, also after it has ended."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from profiled import functions_at_end, may_become_another_user, nothing_is_left, program

from heapyard.catalog.allocators import installed_allocators
from heapyard.model.errors import UsageError
from heapyard.profile.attaching import attach, check, inject
from heapyard.profile.trace import Trace, load_trace
from heapyard.execute.collector import Collector, Plan
from heapyard.execute.orphans import adopt_orphans

MB = 1_000_000


@pytest.fixture(autouse=True, scope="module")
def permitted() -> None:
    child = subprocess.Popen(["sleep", "60"])
    told = inject(child.pid, Path("libc.so.6"), "atoi", "0")
    child.kill()
    child.wait()
    if told["ending"] == "not-permitted":
        pytest.skip("the system does not permit attaching to processes")


class Server:
    """`subject serve`, which does what it is told while two threads of it allocate."""

    def __init__(self, allocator: str = "glibc", *words: object):
        libraries = {a.name: a for a in installed_allocators()}
        env = {**os.environ}
        if libraries[allocator].library is not None:
            env = {**env, **libraries[allocator].env, "LD_PRELOAD": str(libraries[allocator].library)}
        command = list(map(str, words or (program("subject"), "serve", program("libplugin.so"))))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.answer("serving")

    def answer(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{word}\n"

    def do(self, *words: str) -> None:
        assert self.process.stdin is not None
        for word in words:
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()
            self.answer(word)

    def end(self) -> None:
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0 and out.endswith("done\n")


@contextmanager
def serving(allocator: str = "glibc", *words: object) -> Iterator[Server]:
    server = Server(allocator, *words)
    try:
        yield server
        server.end()
    finally:
        server.process.kill()
        server.process.wait()


def watched(server: Server, folder: Path, *words: str, **plan: object) -> list[Trace]:
    """The server's traces while it does `words`, after which it is left alone again."""
    told: list[BaseException] = []
    began, done = threading.Event(), threading.Event()

    def tell() -> None:
        began.wait(60)
        try:
            server.do(*words)
        except BaseException as error:
            told.append(error)
        done.set()

    class Done(KeyboardInterrupt):
        pass

    def tick(elapsed: float) -> None:
        began.set()
        if done.is_set():
            raise Done

    teller = threading.Thread(target=tell)
    teller.start()
    try:
        traced = attach(server.process.pid, Plan([], **plan), folder, 60, tick)  # type: ignore[arg-type]
    finally:
        began.set()
        teller.join()
    assert not told, told
    return [load_trace(path) for path in traced.traces]


@pytest.mark.parametrize("allocator", ["glibc", "jemalloc", "mimalloc", "scalloc"])
def test_exact_from_then_on(tmp_path: Path, allocator: str):
    with serving(allocator) as server:
        [trace] = watched(server, tmp_path, "keep", "drop", "load", mode="exact", never_step=True)
    assert trace.meta["attached"] and trace.end["how"] == "tracing stopped"
    owned = functions_at_end(trace)
    kept = sum(size for name, size in owned.items() if "kept_by_signal" in name)
    assert kept == 10 * MB
    assert owned["plugin_allocates"] == 10 * MB  # of a library that was loaded meanwhile
    assert 0 < owned["churn"] < 30 * MB
    assert nothing_is_left() == []


@pytest.mark.on_request
def test_again_and_again(tmp_path: Path):
    """At any moment of threads that do nothing but allocate; what an earlier session knew does not matter to the next."""
    with serving() as server:
        for turn in range(12):
            mode = "exact" if turn % 2 else "sampled"
            [trace] = watched(server, tmp_path / str(turn), "keep", mode=mode, never_step=True)
            assert trace.end["events"] > 100
            if mode == "exact":  # of what churns, a sample of some megabytes may hold nothing that lives just then
                assert "churn" in functions_at_end(trace), turn
                assert functions_at_end(trace)["kept_by_signal"] == 10 * MB
    assert nothing_is_left() == []


def test_sampled_after_exact(tmp_path: Path):
    """Where every free was looked at, only those of samples are from then on, and none is missed."""
    with serving() as server:
        watched(server, tmp_path / "exact", "keep", mode="exact", never_step=True)
        [trace] = watched(server, tmp_path / "sampled", "keep", "load", mode="sampled")
    assert trace.end["frees"] > 0
    assert functions_at_end(trace).get("churn", 0) < 30 * MB


def test_children_forked_later_are_traced(tmp_path: Path):
    with serving() as server:
        parent, child = sorted(watched(server, tmp_path, "fork", mode="exact", never_step=True), key=lambda t: t.meta["pid"])
    assert child.meta["parent"] == parent.meta["pid"]
    mine = sum(size for name, size in functions_at_end(child).items() if "kept_by_child" in name)
    assert mine == MB


@pytest.mark.skipif(not may_become_another_user(), reason="only root may look into another user's processes")
def test_a_process_of_another_user(tmp_path: Path):
    if not all(folder.stat().st_mode & 0o001 for folder in program("libheapyard_tracer.so").parents):
        pytest.skip("other users cannot read these files")
    words = ["setpriv", "--reuid", "65534", "--clear-groups", program("subject"), "serve", program("libplugin.so")]
    with serving("glibc", *words) as server:
        [trace] = watched(server, tmp_path, "keep", mode="exact", never_step=True)
    assert sum(size for name, size in functions_at_end(trace).items() if "kept_by_signal" in name) == 10 * MB


def test_pages_of_a_heap_that_tells(tmp_path: Path):
    with serving("bfm") as server:
        [trace] = watched(server, tmp_path, "keep", mode="pages")
    kept = sum(size for name, size in functions_at_end(trace).items() if "kept_by_signal" in name)
    assert 10 * MB <= kept < 11 * MB


def test_a_killed_collector_leaves_the_process_alone(tmp_path: Path):
    from heapyard.profile.attaching import _load

    with serving() as server:
        collector = Collector(tmp_path, Plan([], mode="exact"))
        _load(server.process.pid, "subject", collector)
        os.kill(collector.pid, 9)
        collector.close()
        server.do("keep", "drop", "keep")
        [trace] = watched(server, tmp_path / "again", "keep", mode="sampled")  # and it can be attached to again
        assert trace.end["events"] > 0


@pytest.mark.parametrize("allocator", ["glibc", "jemalloc"])
def test_a_program_whose_own_stub_stands_for_malloc(tmp_path: Path, allocator: str):
    """As node's does: not position-independent, and the address of malloc taken."""
    with serving(allocator, program("fixed")) as server:
        [trace] = watched(server, tmp_path, "keep", "keep", mode="exact", never_step=True)
        server.do("keep")  # and it goes on
    owned = functions_at_end(trace)
    assert owned["direct"] == owned["indirect"] == 10 * MB
    assert trace.end["frees"] == 2  # of strdup's


def test_a_real_program(tmp_path: Path):
    """CPython, while it waits in read()."""
    script = "import sys\nk = []\nfor _ in sys.stdin: k.append(bytes(3000000)); print(1, flush=True)"
    child = subprocess.Popen(["/usr/bin/python3", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None and child.stdout is not None
    time.sleep(0.3)

    def feed() -> None:
        time.sleep(3)
        for _ in range(5):
            assert child.stdin is not None and child.stdout is not None
            child.stdin.write("x\n")
            child.stdin.flush()
            child.stdout.readline()
        child.stdin.close()

    feeder = threading.Thread(target=feed)
    feeder.start()
    traced = attach(child.pid, Plan([], mode="exact"), tmp_path, 60)  # until it ends
    feeder.join()
    assert child.wait() == 0
    [trace] = [load_trace(path) for path in traced.traces]
    assert trace.end["how"] == "ended" and 15_000_000 <= trace.peak_bytes < 16_000_000


def test_what_cannot_be_attached_to(tmp_path: Path):
    with pytest.raises(UsageError, match="there is no process"):
        check(4_000_000)
    if Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n":  # not in a container
        with pytest.raises(UsageError, match="runs no program"):
            check(2)
    with serving() as server:
        collector = Collector(tmp_path / "static", Plan([]))
        with pytest.raises(UsageError, match="static program"):
            attach(collector.pid, Plan([]), tmp_path, 1)
        from heapyard.profile.attaching import _load

        _load(server.process.pid, "subject", collector)
        with pytest.raises(UsageError, match="traced already"):
            attach(server.process.pid, Plan([]), tmp_path, 1)
        collector.stop()


def test_a_collector_that_died_before_it_took_the_memory(tmp_path: Path):
    """An injector and its collector may be killed at any instant; the process can be attached to again."""
    deaf = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); "
        "s.bind(sys.argv[1]); s.listen(); print('ready', flush=True); sys.stdin.read()"
    )
    place = str(tmp_path / "deaf")
    with serving() as server, subprocess.Popen(
        [sys.executable, "-c", deaf, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as listener:
        assert listener.stdout is not None and listener.stdout.readline() == b"ready\n"
        collector = Collector(tmp_path / "traces", Plan([], attached=True))

        def told(wish: str) -> str:
            return inject(server.process.pid, collector.library, "heapyard_trace_attach", wish)["result"]

        assert told(f"1:16:128:0:token:{place}") == "0"
        assert told(collector.wish) == "1"  # while that one lives
        listener.kill()
        listener.wait()
        assert told(collector.wish) == "0"
        collector.stop()
        server.do("plugin")


def keeping_in(folder: Path) -> dict[str, str]:
    """An environment in which profiles are kept there, and not among the user's own."""
    return {**os.environ, "HEAPYARD_RESULTS": str(folder / "kept")}


def test_a_killed_heapyard_lets_go_too(tmp_path: Path):
    adopt_orphans()  # as the lab does: its collector becomes ours, to be reaped by us
    with serving() as server:
        command = [sys.executable, "-m", "heapyard", "profile", "--attach", str(server.process.pid)]
        asked = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=keeping_in(tmp_path))
        for _ in range(600):  # until it is attached
            if "libheapyard_tracer" in Path(f"/proc/{server.process.pid}/maps").read_text():
                break
            time.sleep(0.1)
        time.sleep(1)
        asked.kill()
        asked.wait()
        server.do("keep")
        [trace] = watched(server, tmp_path, "keep", mode="exact", never_step=True)
        assert functions_at_end(trace)["kept_by_signal"] == 10 * MB
    for line in nothing_is_left():
        if line.endswith("is a zombie"):
            os.waitpid(int(line.split()[0]), os.WNOHANG)
    assert nothing_is_left() == []


def test_as_a_user_would(tmp_path: Path):
    with serving() as server:
        done = subprocess.run([sys.executable, "-m", "heapyard", "profile", "--attach", str(server.process.pid), "--for", "1s",
                               "-o", str(tmp_path / "it.hytrace")], capture_output=True, text=True, timeout=120,
                              env=keeping_in(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Attached while it ran" in done.stdout and "churn" in done.stdout
    assert "page: " in done.stderr and (tmp_path / "it.hytrace").exists()

# SPDX-License-Identifier: Apache-2.0
"""Attaching disturbs no program: no answer differs, no system call fails that would not have, nobody is killed.

With --on-request every program is attached to 1,000 times, and the injector is killed at 500 instants. HEAPYARD_TABLE names
a file that gets the measured lines.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from profiled import program
from undisturbed import INTERRUPTED, RESTLESS, Subject, Told, code_of, cycles, mapped, subject_words, working

from heapyard.execute.collector import Collector, Plan
from heapyard.model import places
from heapyard.profile.attaching import inject

HERE = Path(__file__).resolve().parent
HARMLESS = (Path("libc.so.6"), "atoi", "0")


@pytest.fixture(autouse=True, scope="module")
def permitted() -> None:
    child = subprocess.Popen(["sleep", "60"])
    told = inject(child.pid, *HARMLESS)
    child.kill()
    child.wait()
    if told["ending"] == "not-permitted":
        pytest.skip("the system does not permit attaching to processes")


@pytest.fixture
def count(request: pytest.FixtureRequest) -> int:
    return 1000 if request.config.getoption("--on-request") else 6


def note(line: str) -> None:
    if table := os.environ.get("HEAPYARD_TABLE"):
        with Path(table).open("a") as file:
            file.write(line + "\n")


@pytest.mark.parametrize("name", [*INTERRUPTED, *RESTLESS, "registers"])
def test_no_answer_differs(tmp_path: Path, count: int, name: str):
    with working(*subject_words(name)) as subject:
        told = cycles(subject.pid, count, tmp_path / "traces")
        answers = subject.answers()
    assert told.endings.get("called", 0) == count, (told.endings, told.texts)
    assert told.mended == 0
    note(told.row(", ".join([name, *subject.about]), answers))


@contextmanager
def redis(folder: Path) -> Iterator[tuple[int, str]]:
    """A server with two threads for its connections: its process and its port."""
    server = shutil.which("redis-server") or shutil.which("redis-check-rdb")
    if server is None or shutil.which("redis-benchmark") is None:
        pytest.skip("this machine has no Redis")
    link = folder / "redis-server"  # the program tells by its name which of them it is to be
    link.symlink_to(server)
    port = str(random.randrange(20_000, 30_000))
    process = subprocess.Popen([link, "--port", port, "--save", "", "--io-threads", "2", "--io-threads-do-reads", "yes",
                                "--dir", folder], stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if subprocess.run(["redis-cli", "-p", port, "ping"], capture_output=True, text=True).stdout == "PONG\n":
                break
            time.sleep(0.05)
        yield process.pid, port
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_server_under_load(tmp_path: Path, count: int):
    with redis(tmp_path) as (pid, port):
        words = ["redis-benchmark", "-p", port, "-l", "-q", "-c", "20", "-P", "4", "-r", "10000", "-d", "300"]
        load = subprocess.Popen([*words, "-t", "set,get,lpush,lpop,sadd,hset"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)
        asked = 0

        def ask() -> None:
            nonlocal asked
            asked += 1
            told = subprocess.run(["redis-cli", "-p", port, "incr", "asked"], capture_output=True, text=True, timeout=60)
            assert told.stdout.strip() == str(asked), told

        told = cycles(pid, count, tmp_path / "traces", ask)
        assert load.poll() is None
        load.terminate()
        assert "rror" not in load.communicate()[1]
    assert told.endings.get("called", 0) == count, (told.endings, told.texts)
    note(told.row("Redis, two threads, under its benchmark", asked))


def test_in_a_container(tmp_path: Path, count: int):
    """Within namespaces of its own, where Heapyard runs too."""
    script = """import sys; from pathlib import Path; from undisturbed import cycles, subject_words, working
with working(*subject_words('allocates')) as s:
 t = cycles(s.pid, int(sys.argv[1]), Path(sys.argv[2])); print(t.row('container', s.answers()))
assert t.endings == {'called': int(sys.argv[1])}, (t.endings, t.texts)"""
    separate = ["unshare", "--user", "--map-root-user", "--pid", "--net", "--ipc", "--fork", "--mount", "--mount-proc"]
    if subprocess.run([*separate, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine does not permit namespaces")
    done = subprocess.run([*separate, sys.executable, "-c", script, str(count), str(tmp_path / "traces")], cwd=HERE,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    note(done.stdout.strip())


def untouched(subject: Subject, count: int, *request: object) -> Told:
    """The request fails `count` times, and leaves no trace in what the process can execute and has mapped."""
    told = Told()
    inject(subject.pid, *request)  # type: ignore[arg-type]  # what malloc keeps from a first time
    code, mappings = code_of(subject.pid), mapped(subject.pid)
    for _ in range(count):
        told.add(inject(subject.pid, *request))  # type: ignore[arg-type]
    assert code_of(subject.pid) == code
    assert mapped(subject.pid) == mappings
    return told


@pytest.mark.parametrize("library, entry, said", [
    ("/does/not/exist.so", "atoi", "/does/not/exist.so: cannot open shared object file: No such file or directory"),
    ("/etc/passwd", "atoi", "/etc/passwd: "),
    ("libc.so.6", "no_such_function", "undefined symbol: no_such_function"),
])
def test_what_cannot_be_loaded_leaves_everything_as_it_was(count: int, library: str, entry: str, said: str):
    with working(*subject_words("registers")) as subject:
        told = untouched(subject, count, Path(library), entry, "0")
        answers = subject.answers()
    assert told.endings == {"not-loaded": count}
    [text] = told.texts
    assert said in text
    note(told.row(f"registers, and {Path(library).name} cannot be loaded", answers))


def test_a_narrow_seccomp_filter_is_respected(count: int):
    with working(program("restless"), "seccomp-narrow") as subject:
        told = untouched(subject, count, *HARMLESS)
        answers = subject.answers()
    assert told.endings == {"refused": count}
    [text] = told.texts
    assert "seccomp" in text
    note(told.row("seccomp-narrow", answers))


def test_one_that_a_debugger_holds(tmp_path: Path, count: int):
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("this machine has no strace")
    with working(*subject_words("poll")) as subject:
        holder = subprocess.Popen([strace, "-q", "-e", "trace=none", "-o", str(tmp_path / "log"), "-p", str(subject.pid)])
        while f"TracerPid:\t{holder.pid}\n" not in Path(f"/proc/{subject.pid}/status").read_text():
            time.sleep(0.01)
        told = Told()
        for _ in range(count):
            told.add(inject(subject.pid, *HARMLESS))
        answers = subject.answers()
        holder.wait()
    assert told.endings == {"not-permitted": count}
    assert told.texts == {f"process {holder.pid} holds it"}
    note(told.row("one that strace holds", answers))


def test_one_that_is_traced_already(tmp_path: Path, count: int):
    with working(*subject_words("allocates")) as subject:
        collector = Collector(tmp_path / "traces", Plan([], mode="sampled", attached=True))
        first = inject(subject.pid, collector.library, "heapyard_trace_attach", collector.wish)
        assert (first["ending"], first["result"]) == ("called", "0")
        stops = Told()
        for _ in range(count):
            again = inject(subject.pid, collector.library, "heapyard_trace_attach", collector.wish)
            assert (again["ending"], again["result"]) == ("called", "1")
            stops.add({**again, "result": "0"})
        collector.stop()
        answers = subject.answers()
    note(stops.row("one that Heapyard traces already", answers))


def test_one_that_is_stopped():
    with working(*subject_words("nanosleep")) as subject:
        time.sleep(0.05)
        os.kill(subject.pid, signal.SIGSTOP)
        while " T " not in Path(f"/proc/{subject.pid}/stat").read_text():
            time.sleep(0.01)
        told = inject(subject.pid, *HARMLESS)
        assert told["ending"] == "refused" and told["text"].startswith("it is stopped")
        assert " T " in Path(f"/proc/{subject.pid}/stat").read_text()
        os.kill(subject.pid, signal.SIGCONT)
        assert subject.answers() > 0


def test_one_that_execs_all_the_time(tmp_path: Path, count: int):
    """Another thread becomes another program while one is held, or within the call."""
    with working(program("restless"), "execs", 0) as subject:
        told = cycles(subject.pid, count, tmp_path / "traces")
        answers = subject.answers()
    assert set(told.endings) <= {"called", "gone"}, (told.endings, told.texts)
    assert told.endings.get("called", 0) > 0
    note(told.row("one that execs all the time", answers))


def test_those_that_end_meanwhile(tmp_path: Path, count: int):
    told = Told()
    for turn in range(count):
        with working(program("restless"), "ends", turn * 1237 % 30_000) as subject:
            collector = Collector(tmp_path / "traces", Plan([], attached=True))
            told.add(inject(subject.pid, collector.library, "heapyard_trace_attach", collector.wish))
            subject.answers()  # perhaps none: it may end before any
            collector.stop()
        shutil.rmtree(tmp_path / "traces")
    assert set(told.endings) <= {"called", "gone"}, (told.endings, told.texts)
    note(told.row("ones that end meanwhile", count))


@pytest.mark.parametrize("name", ["nanosleep", "read", "allocates", "registers", "signals", "forks"])
def test_a_killed_injector(tmp_path: Path, count: int, name: str):
    """At any instant. The program goes on, and can be attached to again."""
    draw = random.Random(name)
    kills = max(5, count // 12 + 1)  # 504 over all names, on request
    with working(*subject_words(name)) as subject:
        for turn in range(kills):
            collector = Collector(tmp_path / "traces", Plan([], attached=True))
            words = [places.native("injector"), "--pid", subject.pid, "--library", collector.library, "--entry",
                     "heapyard_trace_attach", "--argument", collector.wish]
            injector = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL)
            if turn % 3:  # when it has stopped a thread, or some instants later
                held = time.monotonic() + 1
                while time.monotonic() < held and injector.poll() is None and not is_held(subject.pid, injector.pid):
                    pass
                time.sleep(draw.uniform(0, 0.003))
            else:
                time.sleep(draw.uniform(0, 0.03))
            injector.kill()
            injector.wait()
            time.sleep(draw.uniform(0, 0.01))
            collector.stop()
            shutil.rmtree(tmp_path / "traces")
        told = cycles(subject.pid, 3, tmp_path / "traces")
        answers = subject.answers()
    assert told.endings == {"called": 3}, told.texts
    note(told.row(f"{name}, after {kills} killed injectors", answers))


def is_held(pid: int, by: int) -> bool:
    return any(f"TracerPid:\t{by}\n" in path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status"))

# SPDX-License-Identifier: Apache-2.0
"""The native launcher by itself: what it says, what it ends, and what becomes of a trial when it is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_trial import GLIBC, SETTINGS, program, shell, shim, trial

from heapyard.execute.launcher import Launch, Running
from heapyard.execute.orphans import _adopted, adopt_orphans, end_orphans
from heapyard.model import places

TRIAL = str(places.native("trial"))


def launch(*options: str) -> dict[str, object]:
    done = subprocess.run([TRIAL, *options], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def running(mark: str) -> list[int]:
    """Processes with `mark` as an argument, zombies apart."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def gone(mark: str, seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while (left := running(mark)) and time.monotonic() < until:
        time.sleep(0.01)
    return not left


def appears(mark: str, seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while not running(mark) and time.monotonic() < until:
        time.sleep(0.01)
    return bool(running(mark))


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> str:
    """A duration that no other process has among its arguments."""
    return f"3{os.getpid()}.{abs(hash(request.node.name)) % 10**6}"


# ---------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "no command given"),
        (["--timeout", "soon", "--", "/bin/true"], "--timeout must be seconds"),
        (["--timeout", "-1", "--", "/bin/true"], "--timeout must be seconds"),
        (["--cpus", "0,x", "--", "/bin/true"], "--cpus must be a list"),
        (["--parent", "me", "--", "/bin/true"], "--parent must be a process id"),
        (["--nonsense", "--", "/bin/true"], "--nonsense"),
    ],
)
def test_a_mistaken_option_is_named(options: list[str], words: str) -> None:
    done = subprocess.run([TRIAL, *options], capture_output=True, text=True)
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1


def test_a_launcher_whose_caller_is_gone_starts_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    done = subprocess.run([TRIAL, "--parent", "1", "--", "/usr/bin/touch", str(mark)], capture_output=True, text=True)
    assert done.returncode != 0 and "is gone" in done.stderr and not mark.exists()


# ---------------------------------------------------------------------------------------------- what it sees


def test_thousands_of_mappings_are_counted_and_the_library_is_found_behind_them(tmp_path: Path) -> None:
    """An allocator with guard pages; a kernel's list of them is megabytes long."""
    script = (
        "import ctypes, os, time\n"
        "c = ctypes.CDLL(None, use_errno=True); c.mmap.restype = ctypes.c_void_p\n"
        "c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]\n"
        "c.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]\n"
        "base = c.mmap(None, 20000 * 8192, 0, 0x4022, -1, 0)\n"
        "for i in range(20000): assert c.mprotect(base + i * 8192, 4096, 3) == 0\n"
        "pid = os.fork()\n"  # the child is new, and so is soon looked at; the parent may have been seen too early
        "time.sleep(3)\n"  # a look in the middle of the loop is dear, and the next one waits 150 times as long
        "if pid: os.waitpid(pid, 0)\n"
    )
    what = program(sys.executable, "-I", "-c", script, env={"PYTHONMALLOC": "malloc"})
    outcome = trial(tmp_path, what, shim("plain"))
    assert outcome.status == "ok", outcome.reason
    assert outcome.metrics["maps"] > 40_000
    assert [p["mapped"] for p in outcome.detail["processes"]] == [True, True]  # type: ignore[attr-defined]


def test_processes_too_short_to_be_seen_are_counted_all_the_same(tmp_path: Path) -> None:
    outcome = trial(tmp_path, shell("for i in 1 2 3 4 5 6 7 8; do /bin/true; done; :"))
    assert outcome.metrics["processes"] == 9


def test_what_nobody_saw_is_absent_not_zero(tmp_path: Path) -> None:
    outcome = trial(tmp_path, program("/bin/true"))
    assert outcome.metrics.get("maps") != 0 and outcome.metrics["mean_rss"] > 0


def test_the_program_is_first_looked_at_when_it_is_there() -> None:
    """A look between fork and exec would see the launcher's own copy and take its name and memory for the program's."""
    for _ in range(20):
        found = launch("--", "/bin/sleep", "0.01")
        assert all(p["name"] != "trial" for p in found["processes"])  # type: ignore[attr-defined]


def test_a_program_that_is_ending_is_not_one_of_zero_bytes() -> None:
    """Giving back half a gigabyte takes the kernel a while, in which the process still is there and shows no memory."""
    for _ in range(5):
        found = launch("--", str(places.native("known_rss")), "512", "1")
        assert min(rss for _, rss, _ in found["samples"]) > 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "found"), [("libheapyard_witness.so", True), ("witness.so", False)])
def test_a_library_is_known_by_its_whole_path(name: str, found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    witness = places.native("libheapyard_witness.so").resolve()
    monkeypatch.setenv("LD_PRELOAD", str(witness))
    wanted = str(witness.with_name(name)) if found else str(witness)[1:]
    seen = launch("--library", wanted, "--", "/bin/sleep", "0.3")["processes"]
    assert [p["mapped"] for p in seen] == [found]  # type: ignore[attr-defined]


@pytest.mark.parametrize("second", ["/bin/sleep 0.2", "/bin/sh -c 'sleep 0.2; :'"])
def test_a_program_that_becomes_another_is_seen_as_two(second: str) -> None:
    """Even if it becomes itself: the libraries and the environment of the first say nothing of the second."""
    found = launch("--", "/bin/sh", "-c", f"sleep 0.2; exec {second}")
    root = [p for p in found["processes"] if p["pid"] == found["pid"]]  # type: ignore[attr-defined]
    assert [p["name"] for p in root] == ["sh", Path(second.split()[0]).name]


@pytest.mark.parametrize("cpu", sorted(os.sched_getaffinity(0))[:1])
def test_the_launcher_leaves_the_programs_processor_to_it(cpu: int) -> None:
    if len(os.sched_getaffinity(0)) == 1:
        pytest.fail("this test needs two processors")
    script = "grep Cpus_allowed_list /proc/self/status /proc/$PPID/status"
    options = ["--cpus", str(cpu), "--json", "/dev/null", "--stdout", "/dev/stdout"]
    output = subprocess.run(
        [TRIAL, *options, "--", "/bin/sh", "-c", f"sleep 0.1; {script}"], capture_output=True, text=True
    ).stdout
    mine, launchers = (line.split()[-1] for line in output.splitlines())
    assert mine == str(cpu) and launchers != str(cpu)


# ---------------------------------------------------------------------------------------------- what it ends


def test_an_orphan_that_has_ended_by_itself_is_no_straggler() -> None:
    found = launch("--", "/bin/sh", "-c", "(/bin/true &); sleep 0.2")
    assert found["status"] == "exited" and found["stragglers"] == 0


def test_time_of_orphans_is_counted() -> None:
    burn = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
    found = launch("--", "/bin/sh", "-c", f"(sh -c '{burn}; : > /dev/null' &) ; sleep 2")
    alone = launch("--", "/bin/sh", "-c", "sleep 0.01")
    assert found["user"] > 3 * alone["user"] and found["user"] > 0.02  # type: ignore[operator]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_polite_end_reaches_the_whole_tree(end: int, seconds: str) -> None:
    process = subprocess.Popen(
        [TRIAL, "--", "/bin/sh", "-c", f"setsid sleep {seconds} & sleep {seconds}; :"], stdout=subprocess.PIPE
    )
    assert appears(seconds)
    process.send_signal(end)
    output, _ = process.communicate(timeout=20)
    assert json.loads(output)["status"] == "interrupted"
    assert not running(seconds)


def test_a_hangup_that_is_ignored_ends_nothing() -> None:
    process = subprocess.Popen(
        [TRIAL, "--", "/bin/sh", "-c", "echo begun; sleep 0.3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    until = time.monotonic() + 20
    while not Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text() and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGHUP)
    output, _ = process.communicate(timeout=20)
    assert json.loads(output.splitlines()[-1])["status"] == "exited"


def test_nothing_outlives_the_caller(seconds: str) -> None:
    """kill -9 of the lab: the kernel tells the launcher, which ends the tree."""
    caller = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys; subprocess.run(sys.argv[1:])",
            *(TRIAL, "--", "/bin/sh", "-c", f"setsid sleep {seconds} & sleep {seconds}; :"),
        ]
    )
    assert appears(seconds)
    caller.kill()
    caller.wait()
    assert gone(seconds)


def test_nothing_outlives_a_launcher_that_was_killed(tmp_path: Path, seconds: str) -> None:
    """What it could not end any more, even a daemon with a clean environment, falls to the lab."""

    def kill() -> None:
        assert appears(seconds)
        for pid in list(Running.at_work):
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    outcome = trial(tmp_path, shell(f"setsid env -i /bin/sleep {seconds} & sleep {seconds}; :"))
    killer.join()
    assert (outcome.status, outcome.failure) == ("failed", "cannot start") and "left no result" in outcome.reason
    assert not running(seconds) and not Running.at_work


def test_helpers_of_the_lab_survive_a_launcher_that_was_killed(tmp_path: Path, seconds: str) -> None:
    helper = subprocess.Popen(["/bin/sleep", "60"])

    def kill() -> None:
        assert appears(seconds)
        for pid in list(Running.at_work):
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    trial(tmp_path, program("/bin/sleep", seconds))
    killer.join()
    try:
        assert helper.poll() is None
    finally:
        helper.kill()
        helper.wait()


# ---------------------------------------------------------------------------------------------- a result that is none

RESULT = json.dumps(launch("--", "/bin/true")).encode()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(cut=st.integers(0, len(RESULT) - 2))
def test_a_result_that_breaks_off_is_a_sentence(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "result.json"
    silent = Launch(["/bin/true"], {}, path, Path("/dev/null"), Path("/dev/null"), tmp_path)
    with Running(silent) as started:
        started.wait()
    path.write_bytes(RESULT[:cut])
    found, complaint = started.result()
    assert found == {} and complaint and "\n" not in complaint


def test_a_long_complaint_is_kept_at_both_ends(tmp_path: Path) -> None:
    """The dynamic linker speaks first, the program last; what lies between may be gigabytes."""
    noise = "yes noise | head -c 3000000 >&2; echo the last word >&2; exit 1"
    outcome = trial(tmp_path, shell(noise), settings=SETTINGS, allocator=GLIBC)
    assert outcome.reason.endswith("it said: the last word") and len(outcome.stderr_tail) <= 2000


def test_orphans_are_ended_by_several_threads_at_once() -> None:
    adopt_orphans()
    for _ in range(5):
        subprocess.run(["setsid", "sh", "-c", "sleep 60 & sleep 60 & sleep 60 & sleep 60 &"], check=True)
        assert len(_adopted(())) >= 4
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(end_orphans, [()] * 4))
        assert _adopted(()) == []

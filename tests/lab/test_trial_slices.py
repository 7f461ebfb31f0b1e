# SPDX-License-Identifier: Apache-2.0
"""Trials of a block in slices: exactly one runs at a time, each is measured as it would be alone, and none is left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest
from test_trial import GLIBC, SETTINGS, program, shell, shim
from test_trial_launcher import appears, gone, running

import heapyard.execute.slices
from heapyard.execute.slices import run_in_slices, why_not
from heapyard.execute.trial import run_trial
from heapyard.model import places
from heapyard.model.allocator import Allocator
from heapyard.model.experiment import Settings, Treatment, TrialOutcome
from heapyard.model.program import Program, Server

# Each process tells when it ran: spans of its clock without a gap of a millisecond, over so much CPU time.
STAMPS = """
import json, os, sys, threading, time
what, seconds = sys.argv[1], float(sys.argv[2])
def spans(clock):
    found, begin, last, until = [], time.monotonic_ns(), time.monotonic_ns(), clock() + seconds
    while clock() < until:
        now = time.monotonic_ns()
        if now - last > 1_000_000:
            found.append((begin, last))
            begin = now
        last = now
    return found + [(begin, last)]
def tell(found):
    with open(f"spans-{os.getpid()}-{threading.get_ident()}", "w") as file:
        json.dump(found, file)
if what == "threads":
    threads = [threading.Thread(target=lambda: tell(spans(time.thread_time))) for _ in range(3)]
    [t.start() for t in threads]; [t.join() for t in threads]
elif what == "forks":
    for turn in range(8):
        if os.fork() == 0:
            if turn % 2: os.setpgid(0, 0)
            else: os.setsid()
            tell(spans(time.process_time)); os._exit(0)
    for turn in range(8): os.wait()
else:
    tell(spans(time.process_time))
"""


def stamps(what: str, seconds: float = 0.1) -> Program:
    return program(sys.executable, "-I", "-S", "-c", STAMPS, what, str(seconds), literal=True)


def in_slices(
    tmp_path: Path,
    programs: Sequence[Program],
    allocators: Sequence[Allocator] = (),
    settings: Settings = SETTINGS,
    *,
    stop: threading.Event | None = None,
    seconds: float = 0.004,
) -> list[TrialOutcome]:
    def launch(number: int, turns: socket.socket) -> TrialOutcome:
        folder = tmp_path / f"trial{number}"
        folder.mkdir()
        allocator = allocators[number] if allocators else GLIBC
        treatment = Treatment(allocator.name, allocator)
        return run_trial(programs[number], treatment, settings, pad=0, folder=folder, stop=stop, turns=turns)

    return run_in_slices([partial(launch, n) for n in range(len(programs))], seconds=seconds, seed=1)


def spans_of(folder: Path) -> list[tuple[int, int]]:
    return [tuple(span) for path in (folder / "dir").glob("spans-*") for span in json.loads(path.read_text())]


def overlap(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> int:
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in some for b in others)


@pytest.mark.parametrize("what", ["one", "threads", "forks"])
def test_one_trial_runs_at_a_time(tmp_path: Path, what: str) -> None:
    """Threads, children that are forked all the time, and process groups and sessions of a program's own: all stand still."""
    outcomes = in_slices(tmp_path, [stamps(what)] * 3)
    assert [o.status for o in outcomes] == ["ok"] * 3, [o.reason for o in outcomes]
    spans = [spans_of(tmp_path / f"trial{n}") for n in range(3)]
    assert all(len(found) >= 5 for found in spans)  # it was sliced
    ran = sum(end - begin for found in spans for begin, end in found)
    together = sum(overlap(a, b) for a, b in combinations(spans, 2))
    assert together <= 0.002 * ran, (together, ran)


def test_every_second_round_takes_the_order_of_the_one_before_backwards() -> None:
    """Twelve rounds of five trials that do nothing in their slices."""
    rounds, trials = 12, 5
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(trials)]
    files = [pair[0].fileno() for pair in pairs]
    words = [places.native("slices"), "--slice", "1000", "--seed", "7", "--turns", ",".join(map(str, files))]
    giver = subprocess.Popen(list(map(str, words)), pass_fds=files)
    turns: list[int] = []
    lock = threading.Lock()

    def play(number: int) -> None:
        end = pairs[number][1]
        for _ in range(rounds):
            end.send(b".")  # it stands still, and so the next one's turn comes
            end.recv(8)
            with lock:
                turns.append(number)
        end.close()

    for pair in pairs:
        pair[0].close()
    players = [threading.Thread(target=play, args=(number,)) for number in range(trials)]
    for player in players:
        player.start()
    for player in players:
        player.join()
    assert giver.wait(timeout=10) == 0
    orders = [turns[at : at + trials] for at in range(0, rounds * trials, trials)]
    assert all(sorted(order) == list(range(trials)) for order in orders)
    assert all(there == back[::-1] for there, back in zip(orders[::2], orders[1::2], strict=True))
    assert len({tuple(order) for order in orders[::2]}) > 1


def test_each_is_measured_as_it_would_be_alone(tmp_path: Path) -> None:
    work = program(str(places.native("known_rss")), "40", "120")
    small = program(str(places.native("known_rss")), "10", "120")
    outcomes = in_slices(tmp_path, [work, small, work], [GLIBC, GLIBC, shim("plain")])
    assert [o.status for o in outcomes] == ["ok"] * 3, [o.reason for o in outcomes]
    for outcome, mib in zip(outcomes, (40, 10, 40), strict=True):
        m = outcome.metrics
        assert m["peak_rss"] == pytest.approx(mib * 2**20, abs=3 * 2**20)
        assert m["charged"] == pytest.approx(mib * 2**20, abs=4 * 2**20)
        assert outcome.metrics["slices"] > 1 and outcome.series
        assert 0 < m["cpu"] and 0 < m["wall"]
    assert outcomes[0].provider.endswith("libc.so.6") and outcomes[2].provider.endswith("libplain.so")
    assert outcomes[0].answer == outcomes[2].answer


def test_a_program_that_stops_itself_stays_stopped_until_its_parent_wants(tmp_path: Path) -> None:
    """Job control of a program's own: its child's stop is not ours to undo."""
    script = """
import os, signal, sys, time
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(7)
os.waitid(os.P_PID, child, os.WSTOPPED)
until = time.process_time() + 0.05
while time.process_time() < until: pass
ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
print("still stopped" if ended is None else "it went on")
os.kill(child, signal.SIGCONT)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    own = program(sys.executable, "-I", "-S", "-c", script, literal=True)
    outcomes = in_slices(tmp_path, [own, stamps("one")])
    assert outcomes[0].status == "ok", outcomes[0].reason
    assert (tmp_path / "trial0/lab/stdout").read_text() == "still stopped\n7\n"


def test_one_that_hangs_and_one_that_crashes_do_not_disturb_the_others(tmp_path: Path) -> None:
    hangs, crashes = shell("while :; do :; done"), shell("kill -SEGV $$")
    outcomes = in_slices(tmp_path, [hangs, stamps("one"), crashes], settings=Settings(timeout=0.3))
    assert [o.status for o in outcomes] == ["failed", "ok", "failed"]
    assert (outcomes[0].failure, outcomes[2].failure) == ("timeout", "signal")


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    outcomes = in_slices(tmp_path, [program("/no/such/program"), stamps("one")])
    assert [(o.status, o.failure) for o in outcomes] == [("failed", "cannot start"), ("ok", "")]


@pytest.fixture
def mark(request: pytest.FixtureRequest) -> str:
    """A word that no other process has among its arguments."""
    return f"mark{os.getpid()}.{abs(hash(request.node.name)) % 10**6}"


def endless(mark: str) -> Program:
    return program(sys.executable, "-I", "-S", "-c", "while True: pass", mark, literal=True)


def beside(block: Callable[[], list[TrialOutcome]], act: Callable[[], object]) -> list[TrialOutcome]:
    found: list[TrialOutcome] = []
    thread = threading.Thread(target=lambda: found.extend(block()))
    thread.start()
    act()
    thread.join(60)
    assert not thread.is_alive()
    return found


def test_a_stop_ends_all_of_them(tmp_path: Path, mark: str) -> None:
    stop = threading.Event()

    def act() -> None:
        assert appears(mark)
        stop.set()

    outcomes = beside(lambda: in_slices(tmp_path, [endless(mark)] * 3, stop=stop), act)
    assert [o.status for o in outcomes] == ["interrupted"] * 3
    assert gone(mark)


@pytest.mark.parametrize("victim", ["trial", "slices"])
def test_a_native_part_that_is_killed_leaves_nothing_behind(tmp_path: Path, mark: str, victim: str) -> None:
    """One launcher: its trial fails and the others go on. The one that gives turns: all trials end, none stands still."""

    def act() -> None:
        assert appears(mark)
        time.sleep(0.1)
        mine = [pid for pid in running(str(places.native(victim))) if parent_of(pid) == os.getpid()]
        os.kill(mine[0], signal.SIGKILL)

    settings = Settings(timeout=1.0)
    outcomes = beside(lambda: in_slices(tmp_path, [endless(mark)] * 3, settings=settings), act)
    assert all(o.status in ("failed", "interrupted") for o in outcomes)
    assert gone(mark)


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def test_a_lab_that_is_killed_leaves_nothing_stopped(tmp_path: Path, mark: str) -> None:
    lab = f"""
import sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
import test_trial_slices as t
t.in_slices(Path({str(tmp_path)!r}), [t.endless({mark!r})] * 3)
"""
    process = subprocess.Popen([sys.executable, "-c", lab])
    assert appears(mark)
    time.sleep(0.1)
    process.kill()
    process.wait()
    assert gone(mark)


def test_guards_are_judged_over_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other trials of the block are no disturbance; what comes from outside is one for all of them."""
    calm = in_slices(tmp_path, [stamps("one")] * 2)
    assert all("others_share" in o.guards for o in calm)
    quiet = {"pswpin": 0.0, "all": 0.0, "busy": 0.0, "steal": 0.0}
    readings = iter([quiet, quiet | {"pswpin": 9.0, "all": 1.0}])
    monkeypatch.setattr(heapyard.execute.slices, "read_guards", lambda: next(readings))
    (tmp_path / "again").mkdir()
    disturbed = in_slices(tmp_path / "again", [stamps("one")] * 2)
    assert all(o.tripped == ("pages were swapped in",) for o in disturbed)


def test_what_cannot_be_sliced_is_said() -> None:
    treatments = [Treatment("glibc", GLIBC), Treatment("a", GLIBC)]
    seen = {"times": [(1.0, 1.0)], "memory": 1e6, "machine": 1e9}
    plain = program("/bin/true")
    assert why_not(plain, treatments, **seen) == ""
    assert "client" in why_not(program("x", server=Server(("c",), ("s",))), treatments, **seen)
    assert "own time" in why_not(program("x", mutator=True), treatments, **seen)
    assert "collector" in why_not(plain, [*treatments, Treatment("t", GLIBC, {"tracer": "exact"})], **seen)
    assert why_not(plain, treatments, **seen | {"times": [(1.0, 0.6)]}) == "it waits for 40% of its time"
    assert why_not(plain, treatments, **seen | {"times": [(2.0, 0.9), (1.0, 0.95)]}) == ""  # once it had to wait its turn
    assert why_not(plain, treatments, **seen | {"memory": 2.0**29, "machine": 1e9}) == "2 trials at once would hold 1 GiB"
    assert "20 ms" in why_not(plain, treatments, **seen | {"times": [(0.001, 0.001)]})

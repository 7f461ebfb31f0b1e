# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, kill -9, lost readers: what was measured is kept, nothing keeps running, `resume` goes on as planned."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from e2e_yard import counted, program, wait_until

from heapyard import store
from heapyard.model import places
from heapyard.model.errors import HeapyardError

BLOCKS = 6
TREATMENTS = 3  # glibc, its A/A control, plain
INTERRUPTED = 130


def begin(yard, milliseconds: int = 40, blocks: int = BLOCKS):
    return yard.start(*yard.comparison(program("naps"), milliseconds, blocks=blocks))


def complete(yard) -> None:
    """Exactly the planned blocks were done, each counted once."""
    record = yard.record()
    assert record.status == "finished"
    for label in {t.label for t in record.experiment.treatments}:
        assert len(counted(record, label)) == BLOCKS


def running(name: str) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/exe"):
        try:
            if os.readlink(path) == str(program(name).resolve()):
                found.append(path)
        except OSError:
            continue
    return found


def test_ctrl_c_keeps_what_was_measured_and_resume_goes_on(yard):
    process = begin(yard)
    wait_until(lambda: len(yard.trials()) >= 4, of=process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert "resume" in output + errors and "Traceback" not in errors
    before = {t.id: t.metrics for t in yard.trials()}
    assert before and yard.record().status == "interrupted"
    assert running("naps") == []

    resumed = yard.run("resume")
    assert resumed.returncode == 0, resumed.stderr
    complete(yard)
    assert {t.id: t.metrics for t in yard.record().trials if t.id in before} == before


def test_ctrl_c_twice_ends_at_once(yard):
    process = begin(yard, milliseconds=20_000)
    wait_until(lambda: running("naps") != [], of=process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=15)  # far less than the program would have slept
    assert process.returncode == INTERRUPTED and "Traceback" not in errors
    wait_until(lambda: running("naps") == [])


def test_a_polite_end_is_an_end_too(yard):
    process = begin(yard)
    wait_until(lambda: len(yard.trials()) >= 2, of=process)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert yard.run("resume").returncode == 0
    complete(yard)


@pytest.mark.parametrize("seed", [0, 3])
def test_kill_9_at_any_time_loses_at_most_the_trial_in_flight(yard, seed):
    chance = random.Random(seed)
    process = begin(yard)
    wait_until(lambda: len(yard.trials()) >= seed + 1, of=process)
    time.sleep(chance.uniform(0, 0.3))
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: running("naps") == [])  # nothing of the trial in flight goes on
    kept = yard.trials()
    lost = [t for t in yard.record().trials if t.status not in ("ok", "planned")]
    assert len(lost) <= 1 and len(kept) > seed

    resumed = yard.run("resume")
    assert resumed.returncode == 0, resumed.stderr
    complete(yard)
    plan = [(b.index, b.order) for b, _ in store.records.plan_of(yard.record().path)]
    assert len(plan) == len(dict(plan))
    again = yard.run("resume")
    assert again.returncode != 0 or "finished" in again.stdout + again.stderr


@pytest.mark.parametrize("seed", [0])
def test_kill_9_in_slices_loses_at_most_the_block_in_flight(yard, seed):
    chance = random.Random(seed)
    process = yard.start(*yard.comparison(program("mallocs"), 6000, blocks=BLOCKS, options=["--interleave", "slices"]))
    wait_until(lambda: any("slices" in t.metrics for t in yard.trials()), of=process)
    time.sleep(chance.uniform(0, 0.3))
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: running("mallocs") == [] and running("slices") == [])  # nothing goes on, or stands still for ever
    kept = {t.id for t in yard.trials()}
    lost = [t for t in yard.record().trials if t.status not in ("ok", "planned")]
    assert len({t.block for t in lost}) <= 1 and len(lost) <= TREATMENTS

    resumed = yard.run("resume")
    assert resumed.returncode == 0, resumed.stderr
    complete(yard)
    assert kept <= {t.id for t in yard.record().trials if t.status == "ok"}  # of the block in flight, too


def test_a_reader_that_leaves_does_not_harm(yard):
    """`heapyard compare | head -1`, with the pipe closed before the answer comes."""
    process = begin(yard, blocks=2)
    process.stdout.close()
    process.wait(timeout=120)
    assert "Traceback" not in process.stderr.read()
    process.stdout = None
    assert yard.record().status == "finished"


STUDY = """
[study]
title = "killed: threadtest"
mutator = "threadtest"
allocators = ["glibc", "jemalloc"]
blocks = 3
time = "wall_time"
memory = "rss_average"
[options]
iterations = 5
objects = 500
"""


class Killed:
    """A command that is killed again and again, in folders of its own. Left alone once, it says how long it takes."""

    def __init__(self, yard, *words: object):
        self.yard, self.words = yard, words
        self.temporary = yard.folder / "tmp"
        self.temporary.mkdir()
        yard.env["TMPDIR"] = str(self.temporary)
        self.groups = groups()
        began = time.monotonic()
        assert (done := yard.run(*words)).returncode == 0, done.stderr
        self.seconds = time.monotonic() - began

    def kill(self, after: float) -> bool:
        """Whether it was killed: so long after its start, if it was not done before. Nothing finished may be lost."""
        killer = [sys.executable, Path(__file__).with_name("killed.py"), after, *self.yard.command(*self.words)]
        process = subprocess.Popen([str(word) for word in killer], env=self.yard.env, cwd=self.yard.folder,
                                   stdout=subprocess.PIPE, text=True)
        finished: dict[tuple[str, int], object] = {}
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.05):
                finished.update(trials_of(self.yard))

        began = time.monotonic()
        watcher = threading.Thread(target=watch)
        watcher.start()
        told, _ = process.communicate(timeout=120)
        done.set()
        watcher.join()
        if not (answer := json.loads(told))["killed"]:
            self.seconds = min(self.seconds, time.monotonic() - began)  # the first run was slower
        assert answer["left"] == [], f"killed after {after:.3f} s"
        kept = trials_of(self.yard)
        assert {key: kept.get(key) for key in finished} == finished, f"killed after {after:.3f} s"
        return bool(answer["killed"])

    def end(self) -> None:
        """Once more to the end: it works, and what the killed ones left on the machine is gone."""
        for path in self.temporary.iterdir():
            os.utime(path, (0, 0))  # young ones are spared
        assert (done := self.yard.run(*self.words)).returncode == 0, done.stderr
        assert list(self.temporary.iterdir()) == [] and groups() <= self.groups


def groups() -> set[str]:
    return {str(path) for path in Path("/sys/fs/cgroup").glob("**/heapyard-[0-9]*-*")}


def trials_of(yard) -> dict[tuple[str, int], object]:
    """What the stores of all experiments hold of trials that ended well."""
    found: dict[tuple[str, int], object] = {}
    for listed in store.list_records(yard.results):
        try:
            record = store.load_record(listed.path)
        except HeapyardError:
            continue  # half created: it has no trials
        found |= {(listed.id, trial.id): trial.metrics for trial in record.trials if trial.status == "ok"}
    return found


def unfinished(yard) -> list[str]:
    return [listed.id for listed in store.list_records(yard.results) if listed.status == "interrupted"]


def private_state(yard) -> Path:
    """Everything set-up made, but for allocators of its own: those are what is installed and killed."""
    state = yard.folder / "state"
    state.mkdir()
    for path in places.state().iterdir():
        if path.name in ("build", "venv", "stamps", "inputs"):
            (state / path.name).symlink_to(path)
    yard.env["HEAPYARD_STATE"] = str(state)
    return state


# (verb, instants of the usual tests, instants on request)
INSTANTS = [("compare", 1, 70), ("run", 1, 40), ("profile", 1, 60), ("install", 1, 30), ("check", 0, 20)]


@pytest.mark.parametrize("verb, count", [
    *[pytest.param(verb, few, id=verb) for verb, few, _ in INSTANTS if few],
    *[pytest.param(verb, many, id=f"{verb}-{many}-times", marks=pytest.mark.on_request) for verb, _, many in INSTANTS],
])
def test_kill_9_at_any_instant_of_any_verb(yard, verb, count):
    """Nothing that was finished is lost, nothing keeps running, nothing piles up, and what was begun can be resumed."""
    if verb == "compare":
        killed = Killed(yard, *yard.comparison(program("naps"), 30, blocks=3))
    elif verb == "run":
        (yard.folder / "study.toml").write_text(STUDY)
        killed = Killed(yard, "run", yard.folder / "study.toml", "--no-html")
    elif verb == "profile":
        killed = Killed(yard, "profile", "--", program("naps"), 300)
    elif verb == "check":
        killed = Killed(yard, "check", "glibc", "--quick", "--only", "process", "--only", "limits")
    else:
        peers = private_state(yard) / "peers"
        if count > 5:  # the others are packages: they are looked at and not built
            del yard.env["HEAPYARD_OFFLINE"]
        killed = Killed(yard, "allocators", "install", "glibc", "jemalloc", *(["rpmalloc"] if count > 5 else []))
    chance = random.Random(count)
    kills = tries = 0
    while kills < count and (tries := tries + 1) <= 3 * count:
        if verb == "install" and count > 5:
            shutil.rmtree(peers, ignore_errors=True)  # the last kill may have come before it was made
        kills += killed.kill(chance.uniform(0, killed.seconds))
        for name in unfinished(yard):
            kept = trials_of(yard)
            assert (resumed := yard.run("resume", name)).returncode == 0, resumed.stderr
            assert kept.items() <= trials_of(yard).items() and name not in unfinished(yard)
    print(f"{verb}: killed {kills} times, done before {tries - kills} times")
    assert kills == count
    killed.end()

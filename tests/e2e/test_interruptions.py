"""Ctrl-C, kill -9, lost readers: what was measured is kept, nothing keeps running, `resume` goes on as planned."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from e2e_yard import counted, program, wait_until

from heapyard import store

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
    wait_until(lambda: len(yard.trials()) >= 4)
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
    wait_until(lambda: running("naps") != [])
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=15)  # far less than the program would have slept
    assert process.returncode == INTERRUPTED and "Traceback" not in errors
    wait_until(lambda: running("naps") == [])


def test_a_polite_end_is_an_end_too(yard):
    process = begin(yard)
    wait_until(lambda: len(yard.trials()) >= 2)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert yard.run("resume").returncode == 0
    complete(yard)


@pytest.mark.parametrize("seed", range(4))
def test_kill_9_at_any_time_loses_at_most_the_trial_in_flight(yard, seed):
    chance = random.Random(seed)
    process = begin(yard)
    wait_until(lambda: len(yard.trials()) >= seed + 1)
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


@pytest.mark.parametrize("seed", range(3))
def test_kill_9_in_slices_loses_at_most_the_block_in_flight(yard, seed):
    chance = random.Random(seed)
    process = yard.start(*yard.comparison(program("mallocs"), 6000, blocks=BLOCKS, options=["--interleave", "slices"]))
    wait_until(lambda: any("slices" in t.metrics for t in yard.trials()))
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

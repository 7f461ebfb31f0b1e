# SPDX-License-Identifier: Apache-2.0
"""The loop with slices, on a make-believe machine: which blocks run how, what counts, and what a resumed run does."""

from __future__ import annotations

import math
import random
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from test_experiment_loop import events, resume, run
from yard import experiment

from heapyard.execute.loop.tally import Tally
from heapyard.model import journal as kinds
from heapyard.model.experiment import Settings, Treatment, TrialOutcome
from heapyard.model.program import Program
from heapyard.model.record import Record
from heapyard.stats.analyse import analyse
from heapyard.stats.slices_apart import ratios_apart
from heapyard.stats.tables import tables

RATIOS = {"swift": 0.9, "slim": 1.0}


@dataclass
class Machine:
    """Stands in for run_trial. Noise of a whole trial and of one in slices; `cold`: CPU time that slices add; `biased`: by how
    much the ratio of `swift` is another one in slices; `sleeps`: share of its time that a program waits."""

    whole: float = 0.08
    sliced: float = 0.01
    cold: float = 1.2
    biased: float = 1.0
    sleeps: float = 0.0
    stop_after: int | None = None
    calls: list[tuple[str, str, bool]] = field(default_factory=list)
    seed: int = 1

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(
        self, program: Program, treatment: Treatment, settings: Settings, *, pad: int, folder: Path,
        stop: threading.Event | None = None, turns: socket.socket | None = None,
    ) -> TrialOutcome:  # fmt: skip
        with self._lock:
            self.calls.append((program.name, treatment.label, turns is not None))
            count = sum(call[:2] == (program.name, treatment.label) for call in self.calls)
            if self.stop_after is not None and len(self.calls) > self.stop_after:
                assert stop is not None
                stop.set()
                return TrialOutcome(status="interrupted", reason="interrupted")
        name = treatment.allocator.name
        # Of the trial alone, whichever thread asks first.
        draw = random.Random(f"{self.seed} {program.name} {treatment.label} {count}")
        wall = RATIOS.get(name, 1.0) * math.exp(draw.gauss(0, self.sliced if turns else self.whole))
        if turns:
            wall *= self.cold * (self.biased if name == "swift" else 1.0)
        memory = {"slim": 0.7e7}.get(name, 1e7) * math.exp(draw.gauss(0, 0.001)) * (1.3 if turns else 1.0)
        metrics = {"wall": wall, "cpu": wall * (1 - self.sleeps), "user": wall, "sys": 0.0, "peak_rss": memory}
        if turns:
            metrics["slices"] = 40.0
        return TrialOutcome(status="ok", metrics=metrics, provider=f"/lib/{name}.so", exit_code=0, answer="a", command_line="x")


def what(**settings: object):
    return experiment(**{"memory_metric": "peak_rss", **settings})


def kinds_of(record: Record, workload: str = "one") -> list[bool]:
    """By round: did its trials run in slices?"""
    found = {t.round: "slices" in t.metrics for t in record.trials if t.counted and t.workload == workload}
    return [found[number] for number in sorted(found)]


def test_a_noisy_machine_runs_slices(tmp_path: Path) -> None:
    machine = Machine()
    record = run(tmp_path, what(interleave="auto", precision=0.006), machine)
    sliced = kinds_of(record)
    assert sliced[:6] == [False, False, True, True, True, True] and sum(sliced) > 0.7 * len(sliced)
    assert len(sliced) < 40  # whole trials of this noise would need more than 1,000 blocks
    analysis = analyse(record.observations)
    cells = {(c.workload, c.metric): c for c in analysis.cells}
    swift = cells["one", "wall"].comparisons[0]
    assert swift.treatment == "swift" and swift.interval.ratio == pytest.approx(0.9, abs=0.03) and swift.verdict == "better"
    slim = next(c for c in cells["one", "peak_rss"].comparisons if c.treatment == "slim")
    assert slim.interval.ratio == pytest.approx(0.7, abs=0.01)  # whole trials alone tell memory
    assert cells["one", "peak_rss"].summaries[0].mean == pytest.approx(1e7, rel=0.01)
    assert cells["one", "wall_alone"].blocks == sliced.count(False)
    assert any("come from trials that ran by turns" in note and "memory comes from whole" in note for note in analysis.notes)
    assert any("one +2" in note or "one +1" in note for note in analysis.notes if "cold caches" in note)


def test_a_quiet_machine_runs_whole_trials(tmp_path: Path) -> None:
    record = run(tmp_path, what(interleave="auto", precision=0.01), Machine(whole=0.01, sliced=0.02))
    main = [t for t in record.trials if t.stage == "main"]
    assert main and not any("slices" in t.metrics for t in main)
    observed = {r.metric for r in record.observations.rows}
    assert "wall" in observed and "wall_alone" not in observed and "slices" not in observed


@pytest.mark.parametrize("mode", ["trials", "slices"])
def test_what_is_asked_for_is_done(tmp_path: Path, mode: str) -> None:
    record = run(tmp_path, what(interleave=mode, blocks=8), Machine(whole=0.01, sliced=0.05))
    assert any(kinds_of(record)) == (mode == "slices")


def test_a_program_that_waits_runs_alone_and_is_named(tmp_path: Path) -> None:
    record = run(tmp_path, what(interleave="auto", precision=0.05), Machine(whole=0.01, sleeps=0.4))
    assert not any(kinds_of(record))
    assert "one runs one trial after another, not in slices: it waits for 40% of its time" in events(record, kinds.NOTED)


@pytest.mark.parametrize("stop_after", [3, 9, 20, 33, 60, 90])
def test_interrupted_anywhere_and_resumed_it_comes_to_the_same(tmp_path: Path, stop_after: int) -> None:
    request = what(interleave="auto", looks=(6, 9, 14), precision=0.02)
    alone = run(tmp_path / "alone", request, Machine())
    (tmp_path / "cut").mkdir()
    cut = run(tmp_path / "cut", request, Machine(stop_after=stop_after))
    again = resume(cut.path, Machine(seed=2))
    for workload in ("one", "two"):
        assert kinds_of(again, workload)[:6] == kinds_of(alone, workload)[:6]
        assert sum(kinds_of(again, workload)) > 0.6 * len(kinds_of(again, workload))
    assert again.status == "finished"


def test_every_trial_of_a_block_in_slices_is_stored_before_it_runs_and_ended(tmp_path: Path) -> None:
    record = run(tmp_path, what(interleave="slices", blocks=5), Machine())
    assert all(t.status == "ok" and (t.counted or t.stage == "warmup") for t in record.trials)
    sliced = [t for t in record.trials if "slices" in t.metrics]
    assert sliced and all(len({t.treatment for t in sliced if t.block == b}) == 4 for b in {t.block for t in sliced})


def test_a_ratio_that_slices_change_is_told(tmp_path: Path) -> None:
    record = run(tmp_path, what(interleave="slices", blocks=30), Machine(whole=0.01, biased=1.1))
    notes = analyse(record.observations).notes
    told = [n for n in notes if "--interleave trials decides" in n]
    assert len(told) == 2 and all("under swift" in n for n in told)


def test_the_alarm_of_ratios_has_its_size() -> None:
    """Without a bias it is silent in 19 of 20 experiments; noise beyond the margin, so that chance alone decides."""
    import numpy as np
    from heapyard.model.observations import Observation, Observations

    alarms, draw = 0, np.random.default_rng(7)
    for _ in range(200):
        rows = [
            Observation(w, t, 100 * sliced + block, "wall" if sliced else "wall_alone", math.exp(draw.normal(0, sd)), stage="pilot")
            for w in ("one", "two", "three")
            for sliced, sd, blocks in ((True, 0.02, 12), (False, 0.08, 4))
            for block in range(blocks)
            for t in ("glibc", "a", "b")
        ]
        seen = Observations(("one", "two", "three"), ("glibc", "a", "b"), "glibc", "", tuple(rows))
        alarms += bool(ratios_apart(tables(seen), "glibc", seen.settings))
    assert alarms <= 20  # 10 expected of 200; 20 with a chance of 0.2 %


def test_a_resumed_experiment_charges_the_time_of_a_block_in_slices_once(tmp_path: Path) -> None:
    record = run(tmp_path, experiment(interleave="slices", blocks=4), Machine())
    sliced = {t.block for t in record.trials if "slices" in t.metrics}
    assert sliced
    tally = Tally(record.experiment)
    tally.replay(record.trials)
    whole = sum(t.ended - t.started for t in record.trials if t.block not in sliced)
    together = [[t for t in record.trials if t.block == block] for block in sliced]
    assert tally.spent == pytest.approx(whole + sum(sum(t.ended - t.started for t in of) / len(of) for of in together))

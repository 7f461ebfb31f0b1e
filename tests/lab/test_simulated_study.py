# SPDX-License-Identifier: Apache-2.0
"""Studies on a simulated machine: what is asked, what is refused, and the label on all that comes of it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from heapyard.api.simulated_study import as_simulated_study, check_study, settings_of
from heapyard.catalog.study import read_study
from heapyard.execute.loop.errand import Errand, Stopped
from heapyard.execute.loop.runner import Runner
from heapyard.model.allocator import Allocator
from heapyard.model.errors import UsageError
from heapyard.model.experiment import Block, Settings, Treatment, TrialOutcome
from heapyard.model.program import Program
from heapyard.model.simulation import CONTROL_SEEDS, Simulated

STUDY = """
[study]
title = "tiny"
mutator = "threadtest"
allocators = ["glibc"]
machine = "simulated"
time = "wall_time"

[simulated]
machine = "desktop"
cores = 4
seed = 5

[factors]
threads = [1, 2]
processors = [1, 100]

[[figures]]
title = "Throughput"
metric = "throughput"
over = "threads"
y_title = "operations per second"

[[claims]]
text = "It is fast."
kind = "faster_than"
metric = "wall"
treatments = ["glibc"]
"""


@pytest.fixture
def study(tmp_path: Path):
    def read(old: str = "", new: str = ""):
        path = tmp_path / "study.toml"
        assert old in STUDY
        path.write_text(STUDY.replace(old, new))
        return read_study(path)

    return read


def test_a_study_names_its_machine(study) -> None:
    found = study()
    assert found.settings["simulated"] == Simulated("desktop", 4, 5)
    assert found.levels["processors"] == (1, 100) and not found.skipped  # whatever this machine has


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"desktop"', '"laptop"', "field 'simulated.machine' must be one of server, desktop, arm-server, epyc, not 'laptop'"),
        ("cores = 4", "cores = 0", "field 'simulated.cores' must be at least 1, not 0"),
        ("cores = 4", "cores = 129", "field 'simulated.cores' must be at most 128, not 129"),
        ("seed = 5", "seed = -1", "field 'simulated.seed' must be at least 0"),
        ("seed = 5", "speed = 5", "simulated.speed"),
        ('machine = "simulated"\n', "", "field 'study.machine' is missing"),
        ('machine = "simulated"', 'machine = "other"', "field 'study.machine' must be one of this, simulated"),
    ],
)
def test_a_wrong_field_is_named(study, old: str, new: str, complaint: str) -> None:
    with pytest.raises(UsageError) as refused:
        study(old, new)
    assert complaint in refused.value.message


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('time = "wall_time"', 'precision = "1%"', "precision"),
        ('time = "wall_time"', 'pin = "0"', "processors to pin to"),
        ("processors = [1, 100]", 'thp = ["always", "never"]', "the factor thp is of a real machine"),
        ("[factors]", '[fleet]\nengine = "local"\n[factors]', "not on both"),
    ],
)
def test_what_a_simulated_machine_has_not_is_refused(study, old: str, new: str, complaint: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_study(study(old, new))
    assert complaint in refused.value.message


def test_all_that_comes_of_it_is_labelled(study) -> None:
    found = as_simulated_study(study())
    assert found.title == "tiny, simulated on a desktop with 4 cores"
    (figure,), (claim,) = found.figures, found.claims
    assert "simulated" in figure.title and figure.metric == "simulated_throughput" and "simulated" in figure.y_title
    assert claim.metric == "simulated_time"
    assert as_simulated_study(found) is found


def test_settings_are_those_of_seeds(study) -> None:
    given = settings_of(study())
    assert given["blocks"] == 3 and given["time_metric"] == "simulated_wall_time" and given["memory_metric"] == "simulated_memory"


def test_blocks_are_seeds_and_the_control_has_its_own() -> None:
    machine = Simulated("server", 64, 7)
    assert machine.for_round(2).for_trial(0, is_control=False) == Simulated("server", 64, 9)
    assert machine.for_trial(8, is_control=True) == Simulated("server", 8, 7 + CONTROL_SEEDS)
    assert Simulated().for_round(2) == Simulated()


class Told:
    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []

    def begin(self, positions) -> None:
        self.begun += positions

    def end(self, position, outcome, seconds) -> None:
        assert seconds() >= 0
        self.ended.append(position)

    def event(self, kind, text) -> None: ...


def errand(count: int) -> Errand:
    treatments = tuple(Treatment(f"t{i}", Allocator(f"t{i}", "", "1", None)) for i in range(count))
    block = Block(0, "main", 0, "p", tuple(t.label for t in treatments), (0,) * count)
    settings = Settings(simulated=Simulated("server", 2, 1))
    return Errand(block, Program("p", "p", ("/bin/true",)), treatments, settings, tuple(range(count)), (0.0,) * count, 0.0, False)


def test_trials_of_a_block_run_beside_each_other_and_all_are_written_down(tmp_path: Path) -> None:
    told = Told()
    runner = Runner(lambda *_, **__: TrialOutcome("ok"), threading.Event(), tmp_path)
    assert sorted(position for position, _ in runner.outcomes(errand(5), told)) == [0, 1, 2, 3, 4]
    assert sorted(told.begun) == sorted(told.ended) == [0, 1, 2, 3, 4]


def test_whoever_takes_no_more_of_them_has_their_ends_all_the_same(tmp_path: Path) -> None:
    told = Told()
    outcomes = Runner(lambda *_, **__: TrialOutcome("failed"), threading.Event(), tmp_path).outcomes(errand(5), told)
    next(outcomes)
    outcomes.close()
    assert told.begun and sorted(told.begun) == sorted(told.ended)


def test_an_interruption_begins_no_further_trial(tmp_path: Path) -> None:
    told, stop = Told(), threading.Event()

    def launch(*_, **__) -> TrialOutcome:
        stop.set()
        return TrialOutcome("interrupted")

    with pytest.raises(Stopped):
        list(Runner(launch, stop, tmp_path).outcomes(errand(9), told))
    assert len(told.begun) < 9 and sorted(told.begun) == sorted(told.ended)

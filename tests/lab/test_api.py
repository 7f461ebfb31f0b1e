# SPDX-License-Identifier: Apache-2.0
"""The lab as a library: the same experiments as the command line's, and what is read of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import heapyard
from heapyard.execute.loop.watcher import Moment, Watcher


@pytest.fixture(scope="module", autouse=True)
def own_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Another experiment of this machine is no matter of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEAPYARD_LOCK", str(tmp_path_factory.mktemp("lock") / "lock"))
        yield


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> heapyard.Outcome:
    folder = tmp_path_factory.mktemp("experiments")
    return heapyard.compare(["sh", "-c", "echo right"], allocators=["bfm"], blocks=3, seed=7, output=folder)


def test_an_outcome_says_what_the_command_line_says(found: heapyard.Outcome) -> None:
    assert found.status == "finished" and found.analysis.baseline == "glibc" and found.analysis.treatments == ("glibc", "bfm")
    shown = subprocess.run([sys.executable, "-m", "heapyard", "show", str(found.record.path)], capture_output=True, text=True)
    assert " ".join(found.headline.split()[:4]) in " ".join(shown.stdout.split())
    assert found.headline in repr(found) and "| bfm |" in found._repr_markdown_() and found.answer()["id"] == found.id
    assert found.chosen in (None, "bfm")


def test_data_frames_hold_every_trial_and_every_comparison(found: heapyard.Outcome) -> None:
    trials, ratios = found.trials(), found.ratios()
    assert {"glibc", "bfm"} < set(trials.treatment) and len(set(trials.treatment)) == 3  # and the control
    counted = trials[trials.counted & (trials.metric == "cpu")]
    assert len(counted) == 9 and (counted.value > 0).all() and len(trials) == len(list(found.rows()))
    own = ratios[(ratios.treatment == "bfm") & (ratios.workload == "sh")].set_index("metric")
    assert {"cpu", "wall"} <= set(own.index) and (own.low <= own.ratio).all() and (own.ratio <= own.high).all()


def test_a_report_is_one_file(found: heapyard.Outcome, tmp_path: Path) -> None:
    path = found.report(tmp_path / "report.html")
    assert "<html" in path.read_text()[:200]


def test_stored_experiments_are_found_again(found: heapyard.Outcome) -> None:
    folder = found.record.path.parent
    assert [listed.id for listed in heapyard.experiments(output=folder)] == [found.id]
    assert heapyard.load(output=folder).headline == found.headline


def test_an_experiment_that_was_stopped_goes_on(tmp_path: Path) -> None:
    class Impatient(Watcher):
        def trial_begins(self, moment: Moment) -> None:
            if moment.blocks_done == 1:
                os.kill(os.getpid(), signal.SIGINT)

    half = heapyard.compare(["sh", "-c", ":"], allocators=["bfm"], blocks=3, output=tmp_path, watcher=Impatient())
    assert half.status == "interrupted"
    whole = heapyard.resume(output=tmp_path)
    assert whole.id == half.id and whole.status == "finished" and whole.analysis.cell("sh", "cpu").blocks == 3


def test_a_study_is_run_and_its_settings_changed(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        '[study]\ntitle = "short"\nmutator = "threadtest"\nallocators = ["glibc", "bfm"]\nblocks = 9\n'
        "[options]\niterations = 5\nobjects = 500\n"
    )
    found = heapyard.run(tmp_path / "study.toml", blocks=2, output=tmp_path / "results")
    assert found.record.experiment.settings.blocks == 2 and found.analysis.cell("threadtest", "cpu").blocks == 2


@pytest.mark.parametrize("call, message", [
    (lambda: heapyard.compare(["true"], programs=["jq"]), "not both"),
    (lambda: heapyard.compare(["/no/such/program"], allocators=["bfm"]), "/no/such/program"),
    (lambda: heapyard.load("nobody"), "nobody"),
])
def test_mistakes_are_one_sentence(call, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAPYARD_RESULTS", str(tmp_path))
    with pytest.raises(heapyard.HeapyardError, match=message):
        call()


def test_importing_the_library_loads_nothing_heavy() -> None:
    code = "import sys, heapyard; print(sorted({'numpy', 'scipy', 'rich', 'click', 'duckdb'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setenv("HEAPYARD_RESULTS", str(tmp_path / "results"))
    monkeypatch.chdir(tmp_path)
    cells = json.loads((root / "examples" / "lab" / "compare.ipynb").read_text())["cells"]
    code = "".join(line for cell in cells if cell["cell_type"] == "code" for line in [*cell["source"], "\n"])
    assert "blocks=8" in code and all(cell.get("outputs", []) == [] for cell in cells)
    exec(compile(code.replace("blocks=8", "blocks=2"), "compare.ipynb", "exec"), {})
    assert (tmp_path / "report.html").exists()

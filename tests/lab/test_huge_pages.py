# SPDX-License-Identifier: Apache-2.0
"""Levels of huge pages: which mode a program has, whose consent that takes, that the machine gets its own back; and what
the answer says of it. The machine's file is a made-up one, but for the test of the real switch.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from simulated import simulate
from test_cli import sentence
from test_experiment_loop import events, run
from test_experiment_slices import Machine, kinds_of, what
from yard import FakeLaunch

from heapyard import store
from heapyard.catalog.allocators import find_allocators
from heapyard.execute import counting, huge_pages
from heapyard.execute.experiment import carry_out
from heapyard.execute.trial import run_trial
from heapyard.execute.trial_environment import set_scene
from heapyard.model import journal as kinds
from heapyard.model.check import CheckCase, Found, ReportCard
from heapyard.model.errors import HeapyardError, UsageError
from heapyard.model.experiment import Experiment, Settings, Treatment
from heapyard.model.huge_pages import FACT
from heapyard.model.program import Program
from heapyard.report.check_markdown import measured
from heapyard.report.html import render
from heapyard.report.huge_page_words import huge_pages_of
from heapyard.report.json_answer import answer
from heapyard.report.markdown import markdown
from heapyard.report.terminal import print_answer

ON_REQUEST = "always [madvise] never\n"
CONSENT = Settings(timeout=20, change_system=True)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up machine whose mode is madvise."""
    path = tmp_path / "enabled"
    path.write_text(ON_REQUEST)
    monkeypatch.setattr(huge_pages, "ENABLED", path)
    return path


def treatment(level: str) -> Treatment:
    return Treatment(f"glibc [thp={level}]", find_allocators(["glibc"])[0], {"thp": level})


def look(path: Path) -> Program:
    """A program that keeps what it finds in the file."""
    return Program(name="look", title="look", command=("/bin/sh", "-c", f"cat {path} > seen.txt"))


# --- the mode of a trial


@pytest.mark.parametrize(
    ("level", "seen", "told", "left"),
    [
        ("always", "always", "always", "madvise"),
        ("madvise", ON_REQUEST, "madvise", ON_REQUEST),  # the machine has it: nothing is written
        ("never", ON_REQUEST, "never", ON_REQUEST),
        ("default", ON_REQUEST, "madvise", ON_REQUEST),
    ],
)
def test_a_program_has_the_mode_of_its_level(
    tmp_path: Path, machine: Path, level: str, seen: str, told: str, left: str
) -> None:
    folder = tmp_path / "trial"
    folder.mkdir()
    outcome = run_trial(look(machine), treatment(level), CONSENT, pad=0, folder=folder)
    assert outcome.status == "ok", outcome.reason
    assert (folder / "dir/seen.txt").read_text() == seen and outcome.detail["huge_pages"] == told
    assert machine.read_text() == left


def test_a_counting_launch_has_it_too(tmp_path: Path, machine: Path) -> None:
    program, folder = look(machine), tmp_path / "trial"
    folder.mkdir()
    with pytest.raises(HeapyardError, match="never reached the program"):  # only a tool that counts would inject it
        counting._launch(["/usr/bin/env"], program, treatment("always"), CONSENT, set_scene(folder, program))
    assert (folder / "dir/seen.txt").read_text() == "always" and machine.read_text() == "madvise"


def test_a_mode_that_somebody_took_away_is_no_trial(tmp_path: Path, machine: Path) -> None:
    with pytest.raises(UsageError, match="which has madvise: add --change-system as root"):
        run_trial(look(machine), treatment("always"), Settings(timeout=20), pad=0, folder=tmp_path)
    assert machine.read_text() == ON_REQUEST


def test_consent_and_permission_are_asked_beforehand(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge_pages.require(["default", "never", "madvise"], change_system=False)
    huge_pages.require(["always"], change_system=True)
    with pytest.raises(UsageError, match=r"add --change-system as root.* or give the machine that mode"):
        huge_pages.require(["never", "always"], change_system=False)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    huge_pages.require(["madvise"], change_system=True)
    with pytest.raises(UsageError, match=f"only root may change {machine}"):
        huge_pages.require(["always"], change_system=True)
    machine.unlink()
    with pytest.raises(UsageError, match="does not tell of any"):
        huge_pages.require(["madvise"], change_system=True)
    assert huge_pages.mode() == ""


def at_levels(*levels: str, **settings: object) -> Experiment:
    made = what(**settings)
    changed = [replace(t, levels={"thp": levels[i % len(levels)]}) for i, t in enumerate(made.treatments)]
    return replace(made, treatments=tuple(changed))


@pytest.mark.parametrize("interleave", ["slices", "auto"])
@pytest.mark.parametrize(("levels", "sliced"), [(("always", "never"), False), (("default", "never"), True)])
def test_trials_that_set_the_machine_run_one_after_another(
    tmp_path: Path, interleave: str, levels: tuple[str, ...], sliced: bool
) -> None:
    record = run(tmp_path, at_levels(*levels, interleave=interleave, blocks=8), Machine())
    assert any(kinds_of(record)) == sliced
    why = "one runs one trial after another, not in slices: a level of thp sets the mode of the whole machine"
    assert any(why in told for told in events(record, kinds.NOTED)) != sliced


# --- on the command line


def test_the_command_line_asks_for_consent(heapyard, two: list[str], tmp_path: Path, machine: Path) -> None:
    words = ["compare", *two, "--thp", "always,never", "--blocks", "2", "--no-html"]
    assert "add --change-system as root" in sentence(heapyard(*words, "--", "true"), 2)
    said = heapyard(*words, "--change-system", "--", "true")
    assert said.code == 0, said.err
    experiment = store.latest(tmp_path / "results").experiment
    assert experiment.settings.change_system
    assert [t.levels["thp"] for t in experiment.treatments] == ["always", "never", "always", "never", "always"]
    machine.write_text("[always] madvise never")
    assert heapyard(*words, "--", "true").code == 0
    assert not store.latest(tmp_path / "results").experiment.settings.change_system


def test_a_study_too_but_not_its_plan(heapyard, two: list[str], tmp_path: Path, machine: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        '[study]\nprograms = ["mine"]\nallocators = ["glibc", "copy"]\nblocks = 2\n[factors]\nthp = ["always", "never"]\n'
        f'[program.mine]\ncommand = ["true"]\n[allocator.copy]\nlibrary = "{tmp_path}/libcopy.so"\n'
    )
    assert "add --change-system as root" in sentence(heapyard("run", str(study)), 2)
    assert heapyard("run", str(study), "--plan").code == heapyard("plan", str(study), "--no-pilot").code == 0
    assert "add --change-system as root" in sentence(heapyard("plan", str(study)), 2)
    assert heapyard("run", str(study), "--change-system", "--no-html").code == 0


def test_an_experiment_goes_on_with_the_consent_it_began_with(
    heapyard, two: list[str], tmp_path: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heapyard.api.libraries.check_libraries", lambda experiment: None)
    request = at_levels("always", "never", blocks=3, change_system=False)
    with store.create(request, tmp_path / "results") as journal:
        assert carry_out(request, journal, FakeLaunch(stop_after=4), stop=None) == "interrupted"
        journal.set_status("interrupted")
    assert "add --change-system as root" in sentence(heapyard("resume"), 2)
    assert heapyard("resume", "--change-system", "--no-html").code == 0
    assert store.latest(tmp_path / "results").experiment.settings.change_system


# --- the machine of this test


ENABLED = huge_pages.ENABLED
not_permitted = not (ENABLED.exists() and os.access(ENABLED, os.W_OK))


def wait_for(mode: str) -> bool:
    until = time.monotonic() + 20
    while huge_pages.mode() != mode and time.monotonic() < until:
        time.sleep(0.005)
    return huge_pages.mode() == mode


@pytest.mark.skipif(not_permitted, reason="only root may change the mode of huge pages")
@pytest.mark.parametrize("ending", ["in order", "by kill -9"])
def test_the_real_mode_is_set_and_put_back(tmp_path: Path, ending: str) -> None:
    own = huge_pages.mode()
    level = "madvise" if own == "always" else "always"
    command = "cat /sys/kernel/mm/transparent_hugepage/enabled" + ("; sleep 60" if ending == "by kill -9" else "")
    script = f"""if True:
        import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        from test_huge_pages import CONSENT, Program, run_trial, treatment
        program = Program(name="look", title="look", command=("/bin/sh", "-c", {command!r}))
        print(run_trial(program, treatment({level!r}), CONSENT, pad=0, folder=Path({str(tmp_path)!r})).status)
    """
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        if ending == "by kill -9":
            assert wait_for(level)
            process.kill()
        said = process.communicate(timeout=60)[0]
    assert wait_for(own), "the machine's own mode came back"
    if ending == "in order":
        [seen] = [path for path in tmp_path.rglob("stdout") if path.is_file()]
        assert said == "ok\n" and f"[{level}]" in seen.read_text()


# --- what the answer says


def told(levels: list[str] | None = None, **environment: object) -> str:
    record = simulate(2, 1, 2)[1]
    if levels:
        treatments = [replace(t, levels={"thp": levels[i % len(levels)]}) for i, t in enumerate(record.experiment.treatments)]
        record = replace(record, experiment=replace(record.experiment, treatments=tuple(treatments)))
    return huge_pages_of(replace(record, environment={**record.environment, **environment}))


def test_the_phrase_at_the_top() -> None:
    here = {FACT: "always [madvise] never"}
    assert told() == "", "an old experiment says nothing"
    assert told(**here) == "huge pages on request (madvise)"
    assert told(**{FACT: "[always] madvise never"}) == "huge pages always"
    assert told(**here, end={FACT: "[always] madvise never"}) == "huge pages on request (madvise), changed meanwhile"
    assert told(**here, end={"load": "1"}) == "huge pages on request (madvise)"
    assert told(["never"], **here) == "huge pages never, in every trial"
    several = "huge pages by treatment (always, never)"
    assert told(["always", "never"], **here) == f"{several}; the machine's own: on request (madvise)"
    assert told(["always", "never"]) == several


def test_every_form_of_the_answer_tells_it() -> None:
    analysis, record = simulate(2, 2, 4)
    for environment, shown in (({}, False), ({FACT: "always [madvise] never"}, True)):
        seen = replace(record, environment={**record.environment, **environment})
        out = io.StringIO()
        print_answer(Console(file=out, width=80, _environ={}), analysis, seen)
        top = " ".join(" ".join(out.getvalue().splitlines()[:6]).split())
        assert ("Huge pages on request (madvise)." in top) == shown
        assert ("Huge pages on request (madvise)." in markdown(analysis, seen).splitlines()[:4]) == shown
        header = re.search(r"<header>.*?</header>", render(analysis, seen), re.DOTALL)
        assert header and ("huge pages on request (madvise)" in header[0]) == shown
        found = answer(analysis, seen)["huge_pages"]
        assert found == {"machine": "madvise" if shown else None, "told": "huge pages on request (madvise)" if shown else ""}


def test_a_report_card_tells_it(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from heapyard.cli.check import _print

    case = CheckCase("g", "c", "about")
    cards = [ReportCard(find_allocators(["glibc"])[0], (Found(case, "pass", "", {}, 1.0),))]
    _print(cards, False)
    assert capsys.readouterr().out.startswith("Huge pages on request (madvise).\nglibc")
    _print(cards, True)
    assert json.loads(capsys.readouterr().out)["huge_pages"] == "madvise"
    machine.unlink()
    _print(cards, False)
    assert capsys.readouterr().out.startswith("glibc")
    where = {"cpus_online": 2, "kernel": "6.1", "distribution": "a Linux", "cpu": {}, FACT: "[always] madvise never"}
    assert "a Linux, huge pages always;" in " ".join(measured(cards, where, "quick").split())

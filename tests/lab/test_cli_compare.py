# SPDX-License-Identifier: Apache-2.0
"""Verbs that measure: from the words on the command line to trials, and what is said about them. Launches are
make-believe unless a test needs a process of its own.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from test_cli import sentence
from yard import FakeLaunch, experiment

from heapyard import store
from heapyard.catalog.study import Command, Library, Study
from heapyard.api import assemble
from heapyard.api.libraries import check_libraries
from heapyard.cli.progress import PlainProgress, TerminalProgress
from heapyard.cli.progress_width import LiveWidth
from heapyard.execute.experiment import carry_out
from heapyard.execute.loop.watcher import Moment
from heapyard.model.errors import HeapyardError, SetupError, UsageError
from heapyard.model.experiment import Block, TrialOutcome
from heapyard.model.record import Record


def last(tmp_path: Path) -> Record:
    return store.latest(tmp_path / "results")


# --- compare


def test_a_command_is_taken_word_for_word(heapyard, two: list[str], tmp_path: Path) -> None:
    said = heapyard(
        "compare",
        *two,
        "--blocks",
        "3",
        "--seed",
        "5",
        "--env",
        "A=b=c",
        "--expect-exit",
        "7",
        "--check",
        "exit",
        "--title",
        "mine",
        "--cwd",
        str(tmp_path),
        "--",
        "sh",
        "-c",
        "exit 7",
        "--",
        "--blocks",
    )
    assert said.code == 0, said.err
    record = last(tmp_path)
    (program,) = record.experiment.programs
    assert program.command[1:] == ("-c", "exit 7", "--", "--blocks")
    assert (program.env, program.cwd, program.answer.exit_code, program.answer.output) == (
        {"A": "b=c"},
        tmp_path,
        7,
        "ignore",
    )
    assert (record.experiment.title, record.experiment.settings.seed, record.status) == ("mine", 5, "finished")
    assert record.experiment.argv[0] == "heapyard" and record.environment["kernel"]
    assert [t.label for t in record.experiment.treatments] == ["glibc", "copy", "glibc (A/A control)"]
    assert len([t for t in record.trials if t.counted]) == 9


def test_the_answer_goes_to_standard_output_and_the_rest_to_standard_error(
    heapyard, two: list[str], tmp_path: Path
) -> None:
    said = heapyard("compare", *two, "--blocks", "4", "--", "true", launch=FakeLaunch(ratios={"copy": 1.2}))
    assert "copy" in said.out and "experiment" in said.err and "report:" in said.err
    page = last(tmp_path).path / "report.html"
    assert str(page) in said.err and "copy" in page.read_text()
    quiet = heapyard("compare", *two, "--blocks", "4", "--quiet", "--no-html", "--", "true")
    assert quiet.err == "" and "copy" in quiet.out and not (last(tmp_path).path / "report.html").exists()


def test_json_is_one_object(heapyard, two: list[str]) -> None:
    assert isinstance(json.loads(heapyard("compare", *two, "--blocks", "3", "--json", "--", "true").out), dict)


def test_standard_input_is_kept_for_every_launch(
    heapyard, two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"some\x00input")))
    assert heapyard("compare", *two, "--blocks", "1", "--stdin", "-", "--", "cat").code == 0
    assert last(tmp_path).experiment.programs[0].stdin.read_bytes() == b"some\x00input"


def test_settings_reach_the_experiment(heapyard, two: list[str], tmp_path: Path) -> None:
    heapyard(
        "compare",
        *two,
        "--precision",
        "2%",
        "--margin",
        "1%,3%",
        "--pilot",
        "3",
        "--timeout",
        "9s",
        "--pin",
        "0",
        "--",
        "true",
    )
    settings = last(tmp_path).experiment.settings
    assert (settings.precision, settings.margin_time, settings.margin_memory, settings.pilot_blocks) == (
        0.02,
        0.01,
        0.03,
        3,
    )
    assert (settings.timeout, settings.patience, settings.cpus, settings.budget) == (9.0, 0.0, (0,), None)
    heapyard("compare", *two, "--pilot", "2", "--", "true", launch=FakeLaunch(noise=1e-6))
    settings = last(tmp_path).experiment.settings
    assert (settings.budget, settings.patience) == (assemble.DEFAULT_BUDGET, assemble.DEFAULT_PATIENCE)


def test_huge_pages_as_a_factor(heapyard, two: list[str], tmp_path: Path) -> None:
    assert heapyard("compare", *two, "--thp", "default,never", "--blocks", "2", "--", "true").code == 0
    labels = [t.label for t in last(tmp_path).experiment.treatments]
    assert labels == [
        "glibc [thp=default]",
        "glibc [thp=never]",
        "copy [thp=default]",
        "copy [thp=never]",
        "glibc [thp=default] (A/A control)",
    ]


def test_one_allocator_alone_is_nothing_to_compare(heapyard) -> None:
    assert "nothing to compare glibc with" in sentence(heapyard("compare", "--allocators", "glibc", "--", "true"), 3)


def test_an_unknown_baseline_is_said_before_anything_is_installed(heapyard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heapyard.catalog.peers.usual.install_usual", lambda say: pytest.fail("installed"))
    said = heapyard("compare", "--baseline", "nobody", "--", "true")
    assert said.code == 2 and "nobody" in said.err


def test_a_program_that_fails_under_the_baseline(heapyard, two: list[str]) -> None:
    launch = FakeLaunch(faults={("true", "glibc"): {"reason": "it ended with exit code 1"}})
    said = heapyard("compare", *two, "--quiet", "--", "true", launch=launch)
    text = sentence(said, 4)
    assert "it ended with exit code 1" in text and "--trials" in text


def test_another_experiment_is_running(heapyard, two: list[str], tmp_path: Path) -> None:
    lock = store.MachineLock(tmp_path / "lock")
    lock.acquire("the other one")
    assert "the other one" in sentence(heapyard("compare", *two, "--", "true"), 4)
    lock.release()
    assert heapyard("compare", *two, "--blocks", "1", "--", "true").code == 0


def test_results_that_cannot_be_written(heapyard, two: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be stored there" in sentence(
        heapyard("compare", *two, "--output", str(tmp_path / "file"), "--", "true"), 4
    )


# --- run and resume


def study(tmp_path: Path, copy: str) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(
        f'[study]\ntitle = "a study"\nallocators = ["glibc", "copy"]\nblocks = 2\n[factors]\nenv.A = ["1", "2"]\n'
        f'[program.own]\ncommand = ["true"]\n[allocator.copy]\nlibrary = "{copy}"\nenv = {{ B = "x" }}\n'
    )
    return path


def test_a_study_is_carried_out(heapyard, two: list[str], tmp_path: Path) -> None:
    path = study(tmp_path, two[-1].partition("=")[2])
    plan = heapyard("run", str(path), "--plan")
    assert plan.code == 0 and "copy [A=2]" in plan.out and not (tmp_path / "results").exists()
    assert heapyard("run", str(path)).code == 0
    record = last(tmp_path)
    assert record.experiment.study == path.read_text() and record.experiment.title == "a study"
    treatment = next(t for t in record.experiment.treatments if t.label == "copy [A=2]")
    assert treatment.levels == {"env.A": "2"} and treatment.allocator.env == {"B": "x"}
    assert [p.name for p in record.experiment.programs] == ["own"]


def test_an_interrupted_experiment_is_resumed(heapyard, two: list[str], tmp_path: Path) -> None:
    said = heapyard("compare", *two, "--blocks", "6", "--", "true", launch=FakeLaunch(stop_after=8))
    record = last(tmp_path)
    assert said.code == 130 and f"heapyard resume {record.id}" in said.err and "copy" in said.out
    assert heapyard("results").out.count("interrupted") == 1
    assert heapyard("resume").code == 0
    record = last(tmp_path)
    assert record.status == "finished" and len([t for t in record.trials if t.counted]) == 18
    assert "nothing left to run" in sentence(heapyard("resume"), 2)


def test_interrupted_before_the_first_block_there_is_no_answer(heapyard, two: list[str]) -> None:
    said = heapyard("compare", *two, "--blocks", "6", "--", "true", launch=FakeLaunch(stop_after=2))
    assert said.code == 130 and said.out == "" and "before a block was complete" in said.err


def test_a_changed_library_is_not_resumed(heapyard, two: list[str], tmp_path: Path) -> None:
    heapyard("compare", *two, "--blocks", "6", "--", "true", launch=FakeLaunch(stop_after=8))
    with open(two[-1].partition("=")[2], "ab") as library:
        library.write(b"one more byte")
    assert "is not the one the experiment began with" in sentence(heapyard("resume"), 4)
    os.unlink(two[-1].partition("=")[2])
    assert "cannot be read" in sentence(heapyard("resume"), 4)


def test_a_budget_that_was_used_up_can_be_raised(heapyard, tmp_path: Path) -> None:
    what = experiment(programs=("one",), blocks=3, budget=1000.0)
    with store.create(what, tmp_path / "results") as journal:
        carry_out(what, journal, FakeLaunch())
        more = Block(99, "main", 3, "one", tuple(t.label for t in what.treatments), (0, 0, 0, 0))
        journal.add_blocks([more])
        journal.set_status("finished")
    text = sentence(heapyard("resume"), 2)
    assert "used up its budget with 1 blocks left" in text and "--budget 60s" in text


# --- assembling


def test_own_libraries_and_commands_of_a_study(tmp_path: Path, two: list[str]) -> None:
    library = Path(two[-1].partition("=")[2])
    made = assemble.assemble(
        Study(
            allocators=("copy",),
            libraries={"copy": Library(library, {"OPTION": "1"})},
            commands={"own": Command(("true",), cwd=tmp_path)},
        )
    )
    assert [t.allocator.env.get("OPTION") for t in made.treatments] == [None, "1", None]
    assert made.title == "own under 2 allocators" and made.settings.budget == assemble.DEFAULT_BUDGET


def test_a_library_that_was_asked_for_must_load(
    two: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(treatments, settings) -> None:
        if treatments[0].label == "copy":
            raise UsageError("copy cannot be used: it crashes")

    monkeypatch.setattr("heapyard.execute.preflight.check", refuse)
    own = {"copy": Library(Path(two[-1].partition("=")[2]))}
    with pytest.raises(UsageError, match="it crashes"):
        assemble.assemble(
            Study(allocators=("copy",), libraries=own, commands={"own": Command(("true",), cwd=tmp_path)})
        )


def test_seeds_are_drawn_afresh(tmp_path: Path, two: list[str]) -> None:
    own = {"copy": Library(Path(two[-1].partition("=")[2]))}
    what = Study(allocators=("copy",), libraries=own, commands={"own": Command(("true",), cwd=tmp_path)})
    assert assemble.assemble(what).settings.seed != assemble.assemble(what).settings.seed


def test_counting_needs_its_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SetupError, match="counting needs strace"):
        assemble.assemble(Study(settings={"count_syscalls": True}))


def test_all_means_every_installed_allocator_but_the_heaps_built_here(tmp_path: Path, two: list[str]) -> None:
    from heapyard.catalog.allocators import installed_allocators

    own = {"copy": Library(Path(two[-1].partition("=")[2]))}
    made = assemble.assemble(
        Study(allocators=("all", "copy"), libraries=own, commands={"own": Command(("true",), cwd=tmp_path)})
    )
    names = [t.label for t in made.treatments if t.role == "treatment"]
    assert names[0] == "glibc" and "copy" in names and "bfm" not in names
    assert {a.name for a in installed_allocators() if a.provenance != "built from heap/"} <= set(names)


def test_looks_only_where_nothing_else_decides_the_number_of_blocks(tmp_path: Path, two: list[str]) -> None:
    own = {"copy": Library(Path(two[-1].partition("=")[2]))}

    def looks(factors: Mapping[str, tuple[str, ...]] = {}, **settings: object) -> tuple[int, ...]:
        what = Study(
            allocators=("copy",), libraries=own, commands={"own": Command(("true",), cwd=tmp_path)}, settings=settings,
            factors=factors,
        )
        return assemble.assemble(what).settings.looks

    assert looks()[:3] == looks(budget=60.0)[:3] == (6, 9, 14) and looks(pilot_blocks=4)[0] == 4
    assert looks(precision=0.01) == looks(blocks=9) == looks({"thp": ("default", "never")}) == ()


def test_the_end_names_what_was_not_raced(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from yard import allocator

    from heapyard.cli.more import mention_more_allocators

    def catalog(**status: str) -> dict[str, object]:
        return {name: allocator(name, status=kind) for name, kind in status.items()}

    known = catalog(glibc="installed", slow="installed", swift="available", odd="available")
    monkeypatch.setattr("heapyard.catalog.allocators.load_allocators", lambda: known)
    monkeypatch.setattr("heapyard.catalog.peers.usual.usual_missing", lambda: ["swift"])
    mention_more_allocators({"glibc"})
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "heapyard: also installed and not in this race: slow; all of them: heapyard compare --allocators all",
        "heapyard: missing in this race: swift; for the next one: heapyard allocators install swift",
    ]
    monkeypatch.setattr("heapyard.catalog.peers.usual.usual_missing", list)
    mention_more_allocators({"glibc", "slow"})
    assert capsys.readouterr().err == (
        "heapyard: 2 more allocators can be had (swift, odd): heapyard allocators install NAME\n"
    )


def test_unhashed_libraries_are_not_checked() -> None:
    with pytest.raises(HeapyardError, match="cannot be read"):
        check_libraries(experiment())


# --- progress


def moment(**changes: object) -> Moment:
    block = Block(3, "pilot", 1, "one", ("glibc", "swift"), (0, 0))
    return Moment(
        **{
            "block": block,
            "position": 1,
            "blocks_done": 3,
            "blocks_planned": 12,
            "trials_done": 7,
            "spent": 20.0,
            "remaining": 60.0,
            "budget": None,
            **changes,
        }
    )


def test_the_plain_log_says_where_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    progress = PlainProgress(experiment())
    progress.trial_begins(moment())
    progress.trial_begins(moment())
    progress.event("treatment dropped", "swift on one: failed")
    progress.event("resumed", "after 1 of 2 blocks")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2, "one line about every ten seconds"
    assert "block 4/12" in lines[0] and "about 1 min 00 s left" in lines[0] and "one under swift" in lines[0]
    assert lines[1] == "heapyard: treatment dropped: swift on one: failed"


def test_the_terminal_display_fits_its_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "50")
    with TerminalProgress(experiment()) as progress:
        progress.trial_begins(moment(block=Block(3, "pilot", 1, "a" * 80, ("glibc", "b" * 80), (0, 0))))
        progress.event("planned", "one 12")
    from rich.text import Text

    lines = Text.from_ansi(capsys.readouterr().err).plain.splitlines()
    assert any("block 4/12" in line for line in lines) and any("planned: one 12" in line for line in lines)
    assert max(len(line) for line in lines) <= 50


def test_the_live_width_is_the_intervals(tmp_path: Path) -> None:
    from heapyard.stats.analyse import analyse

    what = experiment(programs=("one",), blocks=8)
    width = LiveWidth(0.95, "wall")
    with store.create(what, tmp_path) as journal:
        carry_out(what, journal, FakeLaunch(noise=0.02))
    record = store.load_record(journal.folder)
    blocks = {b.index: b for b, _ in store.records.plan_of(record.path)}
    assert width.of("one") is None
    for t in record.trials:
        width.add(blocks[t.block], t.position, TrialOutcome("ok", metrics=t.metrics))
    cell = analyse(record.observations).cell("one", "wall")
    assert width.of("one") == pytest.approx(cell.half_width, rel=0.5)


def test_blocks_that_a_guard_cut_short_at_different_places_have_no_width() -> None:
    width, ok = LiveWidth(0.95, "wall"), TrialOutcome("ok", metrics={"wall": 1.0})
    labels = ("glibc", "swift", "slim")
    for index, order in enumerate([("glibc", "swift"), ("slim", "glibc"), ("swift", "slim")]):
        for position in range(2):
            width.add(Block(index, "pilot", index, "one", order, (0, 0)), position, ok)
    assert width.of("one") is None
    for index in (3, 4):
        for position in range(3):
            width.add(Block(index, "pilot", index, "one", labels, (0, 0, 0)), position, ok)
    assert width.of("one") == pytest.approx(0.0)


def test_the_width_narrows_on_when_an_allocator_was_released() -> None:
    from random import Random

    width, dice = LiveWidth(0.95, "wall"), Random(1)

    def add(index: int, labels: tuple[str, ...]) -> float | None:
        for position in range(len(labels)):
            outcome = TrialOutcome("ok", metrics={"wall": 1 + dice.gauss(0, 0.01)})
            width.add(Block(index, "main", index, "one", labels, (0,) * len(labels)), position, outcome)
        return width.of("one")

    pilot = [add(index, ("glibc", "swift", "slim")) for index in range(6)][-1]
    assert [add(index, ("slim", "glibc")) for index in range(6, 60)][-1] < 0.6 * pilot


# --- processes of their own


def launcher(tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HEAPYARD_RESULTS": str(tmp_path / "results"),
        "HEAPYARD_LOCK": str(tmp_path / "lock"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_keep_what_was_measured(two: list[str], tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", "heapyard", "compare", *two, "--blocks", "400", "--", "sleep", "0.01"]
    process = subprocess.Popen(
        command, env=launcher(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    give_up = time.monotonic() + 60
    while not (list((tmp_path / "results").glob("*/*.sqlite")) and sum(t.counted for t in last(tmp_path).trials) > 6):
        assert time.monotonic() < give_up and process.poll() is None, "it never came to its third block"
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert last(tmp_path).status == "interrupted"
    assert f"heapyard resume {last(tmp_path).id}" in err and "copy" in out and "Traceback" not in err

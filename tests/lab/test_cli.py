# SPDX-License-Identifier: Apache-2.0
"""The command line as a whole: light help, one sentence for every mistake, exit codes, reading what was stored."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from yard import FakeLaunch, experiment

from heapyard import store
from heapyard.cli import main
from heapyard.cli.naming import sort_names, split_list
from heapyard.cli.suggest import near
from heapyard.cli.verbs import VERBS
from heapyard.execute.experiment import carry_out
from heapyard.model.errors import HeapyardError, UsageError
from heapyard.model.record import Record


class Said:
    """What a command line gave: exit code, standard output, standard error."""

    def __init__(self, code: int, out: str, err: str):
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def heapyard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Carries out a command line in this process, with results, state and lock in folders of the test."""
    monkeypatch.setenv("HEAPYARD_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("HEAPYARD_LOCK", str(tmp_path / "lock"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def run(*arguments: str) -> Said:
        with pytest.raises(SystemExit) as ended:
            main.run(list(arguments))
        captured = capsys.readouterr()
        return Said(ended.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def stored(tmp_path: Path) -> Record:
    """A finished experiment of make-believe in the results folder; `swift` fails on `one`."""
    what = experiment(blocks=4)
    with store.create(what, tmp_path / "results") as journal:
        journal.snapshot("start", {"kernel": "6.1"})
        carry_out(
            what, journal, FakeLaunch(ratios={"slim": 1.1}, faults={("one", "swift"): {"reason": "it exited with 1"}})
        )
        journal.set_status("finished")
        journal.set_verdict("slim is slower")
    return store.load_record(journal.folder)


def sentence(said: Said, code: int) -> str:
    """The one sentence of a refused command, with its remedy."""
    lines = said.err.splitlines()
    assert said.code == code, said.err
    assert len(lines) <= 2 and lines[0].startswith("heapyard: ") and said.out == ""
    return said.err


# --- help and errors


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; from heapyard.cli import main\ntry: main.run(['--help'])\nexcept SystemExit: print(*sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert not loaded & {"numpy", "scipy", "rich", "altair", "jinja2", "duckdb", "sqlite3", "plotext", "zstandard"}
    assert "heapyard.cli.compare" not in done.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(heapyard, verb: str) -> None:
    said = heapyard(verb, "--help")
    assert said.code == 0 and said.out.startswith(f"Usage: heapyard {verb}")


def test_help_lists_every_verb(heapyard) -> None:
    said = heapyard("--help")
    assert said.code == 0 and all(f"  {verb} " in said.out for verb in VERBS)
    assert heapyard().out == said.out


def test_version(heapyard) -> None:
    from heapyard import __version__

    told = heapyard("--version").out
    assert re.fullmatch(rf"heapyard {__version__} \((checkout|wheel)[\w ]*; native parts by \w+ [\d.]+\)\n", told), told


def test_an_unknown_verb_gets_a_suggestion(heapyard) -> None:
    assert "did you mean compare?" in sentence(heapyard("compre"), 2)
    assert "did you mean" not in sentence(heapyard("xyzzy"), 2)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--nonsense"], "no such option '--nonsense'"),
        (["show", "--nonsense"], "heapyard show --help"),
        (["show", "a", "b"], "unexpected extra argument"),
        (["export"], "say which format"),
        (["export", "--parquet"], "name a file with -o"),
        (["export", "--csv", "--treatment", "x"], "goes with --pyperf only"),
        (["show"], "no experiments yet"),
        (["show", "--trials", "--events"], "give one of"),
        (["resume"], "no experiments yet"),
        (["report", "otter"], "no experiment 'otter'"),
        (["run", "none.toml"], "none.toml: cannot be read"),
        (["compare", "--precision", "lots", "--", "true"], "--precision: 'lots' is not a share"),
        (["compare", "--margin", "2%,x", "--", "true"], "--margin: 'x' is not a share"),
        (["compare", "--budget", "soon", "--", "true"], "--budget: 'soon' is not a duration"),
        (["compare", "--pin", "4-", "--", "true"], "--pin: '4-' is not a list of CPUs"),
        (["compare", "--thp", "maybe", "--", "true"], "'maybe' is not a level of thp"),
        (["compare", "--tracer", "off,some", "--", "true"], "'some' is not a level of tracer"),
        (["compare", "--tracer", "pages", "--allocators", "glibc,jemalloc", "--", "true"],
         "level 'pages' of tracer needs a heap that reports its pages; glibc does not"),
        (["compare", "--env", "novalue", "--", "true"], "write NAME=VALUE"),
        (["compare", "--stdin", "x"], "--stdin is for your own command"),
        (["compare", "--expect-exit", "0"], "--expect-exit is for your own command"),
        (["compare", "--"], "no command after --"),
        (["compare", "gxx", "--", "true"], "not both"),
        (["compare", "jemaloc"], "did you mean jemalloc"),
        (["compare", "./prog"], "heapyard compare -- ./prog"),
        (["compare", "--allocator", "mine", "--", "true"], "NAME=LIBRARY"),
        (["compare", "--", "no-such-program"], "no-such-program"),
        (["compare", "--", "printf", "a\udcffb"], "the argument 'a\\udcffb' is not UTF-8"),
    ],
)
def test_every_mistake_is_one_sentence_and_exit_code_two(heapyard, arguments: list[str], words: str) -> None:
    assert words in sentence(heapyard(*arguments), 2)


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("heapyard.store.records.experiment_folders", fail)


def test_an_unexpected_error_keeps_its_traceback_in_a_file(
    heapyard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEAPYARD_STATE", str(tmp_path / "state"))
    failing(monkeypatch, ZeroDivisionError("oops"))
    said = heapyard("results")
    text = sentence(said, 4)
    assert "unexpected ZeroDivisionError: oops" in text and "Traceback" not in text
    (kept,) = (tmp_path / "state" / "crashes").iterdir()
    assert str(kept) in text and "Traceback" in kept.read_text() and "heapyard results" in kept.read_text()
    assert "Traceback" in heapyard("--debug", "results").err


@pytest.mark.parametrize(
    "error, code, words",
    [
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 4, "/x/y: the disk is full"),
        (OSError(errno.EROFS, "Read-only file system", "/x/y"), 4, "/x/y: the file system is read-only"),
        (HeapyardError("it went wrong", remedy="Do better."), 4, "it went wrong\n  Do better."),
        (UsageError("you went wrong"), 2, "you went wrong"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_of_the_world(
    heapyard, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, words: str
) -> None:
    failing(monkeypatch, error)
    assert words in sentence(heapyard("results"), code)


def test_a_closed_pipe_is_no_error(stored: Record, tmp_path: Path) -> None:
    env = {
        **os.environ,
        "HEAPYARD_RESULTS": str(tmp_path / "results"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, "-m", "heapyard", "export", "last", "--csv"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, env=env, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.stderr == "" and done.returncode == 141


# --- names


def test_commas_of_options_do_not_part_names() -> None:
    assert split_list(["glibc:tcache=0,jemalloc:narenas=1,dirty_decay_ms=0,mimalloc"]) == (
        "glibc:tcache=0",
        "jemalloc:narenas=1,dirty_decay_ms=0",
        "mimalloc",
    )
    assert split_list(["a, b", "b", "c=1"]) == ("a", "b", "c=1")


def test_names_are_programs_or_allocators() -> None:
    assert sort_names(["jq:full", "glibc:tcache=0", "system"], ["jq"], ["glibc"]) == (
        ("jq:full",),
        ("glibc:tcache=0", "system"),
    )
    with pytest.raises(UsageError, match="both a program and an allocator"):
        sort_names(["jq"], ["jq"], ["jq"])
    with pytest.raises(UsageError, match="did you mean sqlite"):
        sort_names(["sqlte"], ["sqlite"], ["glibc"])


def test_suggestions_are_near() -> None:
    assert near("jemaloc", ["jemalloc", "tcmalloc", "snmalloc", "glibc"]) == ["jemalloc"]
    assert near("mi", ["mimalloc", "glibc"]) == ["mimalloc"]
    assert near("zzz", ["mimalloc", "glibc"]) == []


# --- reading what was stored


def test_results_lists_experiments_damaged_ones_too(heapyard, stored: Record, tmp_path: Path) -> None:
    bad = tmp_path / "results" / "200101-0000-wreck"
    bad.mkdir()
    (bad / "experiment.sqlite").write_bytes(b"nothing of the kind" * 100)
    said = heapyard("results")
    assert said.code == 0 and stored.id in said.out and "slim is slower" in " ".join(said.out.split())
    assert "wreck" in said.out and "unreadable" in said.out
    listed = json.loads(heapyard("results", "--json").out)
    assert [entry["id"] for entry in listed] == [stored.id, "200101-0000-wreck"]
    assert listed[0]["done"] == listed[0]["planned"] == 8 and listed[1]["problem"]


def test_every_number_can_be_traced_to_its_trial(heapyard, stored: Record) -> None:
    trial = next(t for t in stored.trials if t.counted and t.treatment == "slim")
    said = heapyard("show", stored.id, "--trial", str(trial.id))
    assert said.code == 0
    for fact in (
        trial.command_line,
        trial.provider,
        trial.answer,
        repr(trial.metrics["wall"]),
        trial.series,
        "slimslim",
    ):
        assert fact in said.out
    none = heapyard("show", "--trial", "999")
    assert "has no trial 999" in sentence(none, 2) and f"heapyard show {stored.id} --trials lists those that ran" in none.err


def test_trials_events_and_environment(heapyard, stored: Record) -> None:
    rows = heapyard("show", "--trials").out
    assert all(f" {t.id} " in rows for t in stored.trials)
    assert "treatment dropped: swift on one" in heapyard("show", "--events").out
    assert json.loads(heapyard("show", "--environment").out) == {"kernel": "6.1"}


def test_a_verbose_answer_has_every_metric(heapyard, tmp_path: Path) -> None:
    what, launch = experiment(blocks=4), FakeLaunch()

    def counting(*given, **options):
        done = launch(*given, **options)
        return replace(done, metrics={**done.metrics, "minor_faults": 900.0})

    with store.create(what, tmp_path / "results") as journal:
        carry_out(what, journal, counting)
    assert "minor faults" not in heapyard("show").out.lower()
    assert "minor faults" in heapyard("show", "--verbose").out.lower()


def test_what_is_preferred_reaches_every_form_of_the_answer(heapyard, stored: Record, tmp_path: Path) -> None:
    wanted = ("--prefer", "memory", "--memory-limit", "+10%")
    said = json.loads(heapyard("show", *wanted, "--json").out)
    assert said["preference"] == {"prefer": "memory", "memory_limit": pytest.approx(0.1)}
    assert heapyard("show", *wanted).code == heapyard("show", *wanted, "--markdown").code == 0
    assert heapyard("report", *wanted, "--html", str(tmp_path / "r.html")).code == 0
    assert "--prefer" in heapyard("compare", "--help").out and "--memory-limit" in heapyard("run", "--help").out
    wrong = heapyard("show", "--memory-limit", "much")
    assert wrong.code == 2 and "--memory-limit" in wrong.err
    assert heapyard("show", "--prefer", "beauty").code == 2


@pytest.mark.parametrize("format_", ["csv", "jsonl", "pyperf"])
def test_exports_go_to_standard_output_or_a_file(heapyard, stored: Record, tmp_path: Path, format_: str) -> None:
    text = heapyard("export", "last", f"--{format_}").out
    path = tmp_path / "out"
    assert heapyard("export", "last", f"--{format_}", "-o", str(path)).code == 0
    assert path.read_text() == text and len(text) > 1000
    if format_ == "csv":
        assert {row["experiment"] for row in csv.DictReader(text.splitlines())} == {stored.id}


def test_parquet_goes_to_a_file(heapyard, stored: Record, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    assert heapyard("export", "--parquet", "-o", str(path)).code == 0
    assert path.read_bytes()[:4] == b"PAR1"
    assert (
        "none/out: no such file"
        in sentence(heapyard("export", "--parquet", "-o", str(tmp_path / "none" / "out")), 4).lower()
    )


def test_an_unknown_treatment_names_those_there_are(heapyard, stored: Record) -> None:
    assert "did you mean swift?" in sentence(heapyard("export", "--pyperf", "--treatment", "swft"), 2)


def test_there_is_nothing_to_resume_in_a_finished_experiment(heapyard, stored: Record) -> None:
    assert "nothing left to run" in sentence(heapyard("resume"), 2)

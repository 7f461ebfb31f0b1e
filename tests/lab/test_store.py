# SPDX-License-Identifier: Apache-2.0
"""The store: what is written is read back, however the experiment ended."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest
from yard import FakeLaunch, experiment

from heapyard import store
from heapyard.execute.experiment import carry_out
from heapyard.model.errors import HeapyardError, UsageError
from heapyard.model.experiment import Block, Experiment, TrialOutcome
from heapyard.store import database
from heapyard.store.locks import ExperimentLock, MachineLock
from heapyard.store.series import write_series


def made(parent: Path, what: Experiment | None = None, **settings: object) -> Path:
    """A finished experiment."""
    what = what or experiment(**{"blocks": 3, **settings})
    with store.create(what, parent) as journal:
        journal.snapshot("start", {"kernel": "6.1", "load": 0.1})
        carry_out(what, journal, FakeLaunch())
        journal.snapshot("end", {"kernel": "6.1", "load": 0.4})
        journal.set_status("finished")
    return journal.folder


def test_what_is_stored_is_read_back(tmp_path: Path) -> None:
    what = experiment(blocks=3)
    record = store.load_record(made(tmp_path, what))
    assert record.experiment == what
    assert record.status == "finished"
    assert record.environment == {"kernel": "6.1", "load": 0.1, "end": {"load": 0.4}}
    counted = [t for t in record.trials if t.counted]
    assert len(counted) == 3 * 2 * 4  # blocks x programs x treatments
    assert len(record.trials) == len(counted) + 2  # and the two warm-ups
    assert {t.stage for t in record.trials if not t.counted} == {"warmup"}
    assert len(record.observations.rows) == 2 * len(counted)
    assert record.observations.control == "glibc (A/A control)"
    assert record.observations.treatments == ("glibc", "swift", "slim")
    one = counted[0]
    row = next(r for r in record.observations.rows if r.trial == one.id and r.metric == "wall")
    assert row.value == one.metrics["wall"] and one.provider and one.command_line and one.guards == {"steal": 0.0}


def test_series_are_found_by_their_content(tmp_path: Path) -> None:
    record = store.load_record(made(tmp_path))
    one = record.trials[0]
    assert store.read_series(record.path, one.series) == [
        (0.0, 4096, -1),
        (pytest.approx(one.metrics["wall"], abs=1e-6), 8192, 8000),
    ]
    assert write_series(tmp_path, [(0.0, 1, 2)]) == write_series(tmp_path, [(0.0, 1, 2)])


def test_a_damaged_series_is_said_so(tmp_path: Path) -> None:
    name = write_series(tmp_path, [(0.0, 1, 2)])
    other = write_series(tmp_path, [(0.0, 3, 4)])
    files = {p.stem: p for p in (tmp_path / "series").iterdir()}
    files[name].write_bytes(files[other].read_bytes())
    with pytest.raises(HeapyardError, match="does not match its name"):
        store.read_series(tmp_path, name)
    files[name].write_bytes(b"garbage")
    with pytest.raises(HeapyardError, match="damaged"):
        store.read_series(tmp_path, name)
    files[name].unlink()
    with pytest.raises(HeapyardError, match="missing"):
        store.read_series(tmp_path, name)


BEFORE_FLEETS = "DROP TABLE node; ALTER TABLE block DROP COLUMN node; PRAGMA user_version=2;"
BEFORE_MUTATORS = BEFORE_FLEETS + (
    "ALTER TABLE trial DROP COLUMN result; ALTER TABLE experiment DROP COLUMN suite; "
    "DROP TABLE figure; DROP TABLE claim; PRAGMA user_version=1;"
)


@pytest.mark.parametrize("back", [BEFORE_MUTATORS, BEFORE_FLEETS])
def test_a_file_of_an_earlier_version_opens_and_can_be_continued(tmp_path: Path, back: str) -> None:
    """Version 1 had no results, figures or claims; version 2 had no nodes."""
    folder = made(tmp_path)
    path = folder / database.FILE_NAME
    with sqlite3.connect(path) as connection:
        connection.executescript(back)
    connection.close()
    before = store.load_record(folder)
    assert len(before.trials) > 2 and before.experiment.figures == () and before.trials[0].result == ""
    assert before.nodes == {} and before.trials[0].node == ""
    with store.reopen(folder) as journal:
        journal.event("noted", "continued")
    after = store.load_record(folder)
    assert after.trials == before.trials and after.events[-1].text == "continued"
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == database.SCHEMA_VERSION == 3
    connection.close()


def test_the_nodes_of_a_fleet_are_kept_as_they_were_first(tmp_path: Path) -> None:
    with store.create(experiment(blocks=2), tmp_path) as journal:
        for index, snapshot in enumerate(({"kernel": "6.1"}, {"kernel": "6.2"})):
            block = Block(index, "main", index, "one", ("glibc", "swift"), (0, 1))
            journal.add_blocks([block])
            journal.set_node(block, "n1", snapshot)
            for position in range(2):
                journal.end_trial(journal.start_trial(block, position), TrialOutcome("ok", metrics={"wall": 1.0 + position}))
            journal.end_block(block, "done")
        record = store.load_record(journal.folder)
    assert record.nodes == {"n1": {"kernel": "6.1"}}
    assert {t.node for t in record.trials} == {row.node for row in record.observations.rows} == {"n1"}


def test_a_finished_experiment_is_one_file_and_opens_in_a_read_only_folder(tmp_path: Path) -> None:
    folder = made(tmp_path)
    assert not list(folder.glob("*-wal"))
    header = (folder / database.FILE_NAME).read_bytes()[18:20]
    assert header == b"\x01\x01", "still in WAL mode, which needs a writable folder"


def test_an_open_experiment_can_be_read_while_it_runs(tmp_path: Path) -> None:
    what = experiment(blocks=2)
    with store.create(what, tmp_path) as journal:
        block = Block(0, "main", 0, "one", ("glibc", "swift"), (0, 1))
        journal.add_blocks([block])
        trial = journal.start_trial(block, 0)
        record = store.load_record(journal.folder)
        assert record.status == "running"
        assert [(t.id, t.status) for t in record.trials] == [(trial, "started")]
        assert not record.observations.rows


def test_an_experiment_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[list[object]] = []
    write = store.journal.rows.write_experiment

    def look(*arguments: object) -> None:
        listed.append(store.list_records(tmp_path))
        write(*arguments)

    monkeypatch.setattr(store.journal.rows, "write_experiment", look)
    with store.create(experiment(), tmp_path):
        assert listed == [[]]
        assert [entry.problem for entry in store.list_records(tmp_path)] == [""]


def test_an_experiment_whose_process_is_gone_counts_as_interrupted(tmp_path: Path) -> None:
    with store.create(experiment(), tmp_path) as journal:
        folder = journal.folder
    assert store.load_record(folder).status == "interrupted"


def test_a_trial_cannot_start_twice(tmp_path: Path) -> None:
    with store.create(experiment(), tmp_path) as journal:
        block = Block(0, "main", 0, "one", ("glibc",), (0,))
        journal.add_blocks([block])
        journal.end_trial(journal.start_trial(block, 0), TrialOutcome("ok"))
        with pytest.raises(HeapyardError, match="ran before"):
            journal.start_trial(block, 0)


def test_ids_are_found_by_beginning_word_and_path(tmp_path: Path) -> None:
    folder = made(tmp_path)
    word = folder.name.rsplit("-", 1)[-1]
    for reference in (folder.name, folder.name[:8], word, "last", str(folder), str(folder / database.FILE_NAME)):
        assert store.find_folder(reference, tmp_path) == folder
    with pytest.raises(UsageError, match="no experiment 'nonsense'"):
        store.find_folder("nonsense", tmp_path)
    with pytest.raises(UsageError, match="no experiment here"):
        store.find_folder(str(tmp_path / "elsewhere"), tmp_path)
    made(tmp_path)
    with pytest.raises(UsageError, match="fits 2 experiments"):
        store.find_folder(folder.name[:6], tmp_path)


def test_last_is_the_newest(tmp_path: Path) -> None:
    made(tmp_path)
    newest = made(tmp_path)
    assert store.latest(tmp_path).path == newest
    assert next(iter(store.list_records(tmp_path))).path == newest


def test_no_experiments_at_all(tmp_path: Path) -> None:
    assert store.list_records(tmp_path / "none") == []
    with pytest.raises(UsageError, match="no experiments yet"):
        store.latest(tmp_path / "none")


def damage(path: Path, how: str) -> None:
    if how == "garbage":
        path.write_bytes(b"this is not a database" * 400)
    elif how == "truncated":
        path.write_bytes(path.read_bytes()[:5000])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "newer":
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA user_version = 99")
        connection.close()
    else:
        connection = sqlite3.connect(path)
        connection.execute("UPDATE experiment SET settings_json = '{'")
        connection.commit()
        connection.close()


@pytest.mark.parametrize("how", ["garbage", "truncated", "empty", "newer", "settings"])
def test_a_damaged_file_is_one_sentence_and_does_not_hide_the_others(tmp_path: Path, how: str) -> None:
    good, bad = made(tmp_path), made(tmp_path)
    damage(bad / database.FILE_NAME, how)
    with pytest.raises(HeapyardError) as caught:
        store.load_record(bad)
    assert str(bad / database.FILE_NAME) in caught.value.message and "\n" not in caught.value.message
    listed = {entry.path: entry for entry in store.list_records(tmp_path)}
    assert listed[bad].problem and not listed[good].problem


def test_a_newer_file_says_so(tmp_path: Path) -> None:
    folder = made(tmp_path)
    damage(folder / database.FILE_NAME, "newer")
    with pytest.raises(HeapyardError, match="newer Heapyard"):
        store.reopen(folder)


def test_results_that_cannot_be_stored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HeapyardError, match="cannot be stored there") as caught:
        store.create(experiment(), tmp_path / "file")
    assert "--output" in (caught.value.remedy or "")


def test_only_one_process_carries_an_experiment_out(tmp_path: Path) -> None:
    with store.create(experiment(), tmp_path) as journal, pytest.raises(HeapyardError, match="another heapyard"):
        ExperimentLock(journal.folder)
    ExperimentLock(journal.folder).release()


def test_only_one_experiment_runs_on_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = MachineLock(path), MachineLock(path)
    first.acquire("261120-1432-otter")
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    with pytest.raises(HeapyardError, match=f"261120-1432-otter, process {os.getpid()}") as caught:
        second.acquire("mine")
    assert "--wait" in (caught.value.remedy or "")
    told: list[str] = []

    def leave(who: str) -> None:
        told.append(who)
        first.release()

    second.acquire("mine", wait=True, waiting=leave)
    assert len(told) == 1 and "otter" in told[0]
    second.release()


def test_a_full_disk_is_said_and_what_was_measured_stays(tmp_path: Path) -> None:
    what = experiment(blocks=3)
    with store.create(what, tmp_path) as journal:
        launch = FakeLaunch()

        def fill_after_ten(*arguments: object, **options: object) -> TrialOutcome:
            if len(launch.calls) == 10:
                # SQLite's own limit on the size of the file raises the very error of a full disk.
                pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
                journal._connection.execute(f"PRAGMA max_page_count = {pages}")
            outcome = launch(*arguments, **options)
            outcome.detail["much"] = "x" * 5000
            return outcome

        with pytest.raises(HeapyardError, match="the disk is full"):
            carry_out(what, journal, fill_after_ten)
    record = store.load_record(journal.folder)
    assert sum(t.status == "ok" for t in record.trials) >= 10

# SPDX-License-Identifier: Apache-2.0
"""Every run of every test, in one SQLite file: what is done, what is to be done, and what differs follow from it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...model.errors import UsageError
from ...model.soak import Compared, Run

GLIBC = "glibc"  # the library of the runs that others are compared with
_TABLE = """
create table if not exists run (
  id integer primary key, program text not null, key text not null, library text not null, round integer not null,
  test text not null, marks text not null, cases integer not null, seconds real not null, served integer not null,
  elsewhere text not null, output text not null);
create index if not exists run_by_test on run (program, key, library, test);
"""
_COLUMNS = "test, marks, cases, seconds, served, elsewhere, output"


class Record:
    """`library` is a digest of the library and its environment; `key` one of the program and its tests."""

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._file = sqlite3.connect(path, timeout=60.0)
            self._file.executescript("pragma journal_mode = wal;" + _TABLE)
        except sqlite3.DatabaseError as error:
            raise UsageError(f"{path} is damaged ({error})", remedy="Remove it; what was run is run again.") from None

    def close(self) -> None:
        self._file.close()

    def add(self, program: str, key: str, judged: Iterable[tuple[str, int, Run]]) -> None:
        """Runs (library, round, run) of one test: all of them or none."""
        with self._file:
            self._file.executemany(
                "insert into run (program, key, library, round, test, marks, cases, seconds, served, elsewhere, output)"
                " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(program, key, library, round_, r.test, json.dumps(sorted(r.marks)), r.cases, r.seconds, r.served,
                  json.dumps(r.elsewhere), r.output) for library, round_, r in judged])

    def forget(self, program: str, library: str) -> None:
        """All runs of a library."""
        with self._file:
            self._file.execute("delete from run where program = ? and library = ?", (program, library))

    def runs(self, program: str, key: str, library: str, test: str | None = None) -> list[Run]:
        """In their order, of one test or of all. O(runs)."""
        rows = self._file.execute(
            f"select {_COLUMNS} from run where program = ? and key = ? and library = ? and (? is null or test = ?) order by id",
            (program, key, library, test, test))
        return [Run(test, frozenset(json.loads(marks)), cases, seconds, served, tuple(json.loads(elsewhere)), output)
                for test, marks, cases, seconds, served, elsewhere, output in rows]

    def rounds(self, program: str, key: str, library: str) -> dict[int, set[str]]:
        """The tests that each round has run."""
        rounds: dict[int, set[str]] = {}
        for round_, test in self._file.execute(
                "select distinct round, test from run where program = ? and key = ? and library = ?", (program, key, library)):
            rounds.setdefault(round_, set()).add(test)
        return rounds

    def compared(self, program: str, key: str, library: str) -> list[Compared]:
        """Every test that ran under the library. O(runs)."""
        here, there = (_by_test(self.runs(program, key, name)) for name in (library, GLIBC))
        return [Compared(test, runs, there.get(test, ())) for test, runs in here.items()]


def _by_test(runs: Sequence[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.test, []).append(run)
    return found

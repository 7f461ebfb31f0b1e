# SPDX-License-Identifier: Apache-2.0
"""Writing an experiment while it runs: every call is one committed transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from .. import __version__
from ..model.errors import HeapyardError
from ..model.experiment import Block, BlockStatus, Experiment, Settings, TrialOutcome
from ..model.record import TrialRecord
from . import database, rows
from .codec import encode
from .folders import new_folder
from .locks import ExperimentLock
from .results import write_result
from .returned import ReturnedTrial
from .series import write_series


class StoredJournal:
    """The journal of one experiment in its folder; see model.journal.Journal. Made by `create` and `reopen`.

    A context manager: leaving it closes the file and lets go of the experiment's lock. Errors of the disk are
    HeapyardErrors; what was written before stays readable, and the experiment can be resumed.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: ExperimentLock):
        self.folder, self._connection, self._lock = folder, connection, lock
        self._closed = False
        self._path = folder / database.FILE_NAME
        with database.explained(self._path):
            self.experiment: Experiment = rows.read_experiment(connection)
            created = datetime.fromisoformat(rows.read_header(connection)["created"])
            last = connection.execute(
                "SELECT max(coalesce(max(ended), 0), coalesce(max(started), 0)) FROM trial"
            ).fetchone()[0]
        # Seconds since creation on a clock that is never set back; a resumed experiment goes on after its last entry.
        self._origin = time.monotonic() - max(time.time() - created.timestamp(), last)

    @property
    def id(self) -> str:
        return self.folder.name

    def __enter__(self) -> StoredJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; harmless when it is closed already."""
        if not self._closed:
            database.close(self._connection, tidy=True)
            self._lock.release()
            self._closed = True

    def elapsed(self) -> float:
        """Seconds since the experiment was created."""
        return time.monotonic() - self._origin

    def add_blocks(self, blocks: Sequence[Block]) -> None:
        with self._transaction() as run:
            for b in blocks:
                run(
                    "INSERT INTO block (id, stage, round, workload, attempt, status) VALUES (?, ?, ?, ?, ?, 'planned')",
                    (b.index, b.stage, b.round, b.workload, b.attempt),
                )
                for position, (label, pad) in enumerate(zip(b.order, b.pads, strict=True)):
                    run(
                        "INSERT INTO trial (block, position, treatment, pad, status) VALUES (?, ?, ?, ?, 'planned')",
                        (b.index, position, label, pad),
                    )

    def plan(self) -> list[tuple[Block, BlockStatus]]:
        with database.explained(self._path):
            return rows.read_plan(self._connection)

    def trials(self) -> tuple[TrialRecord, ...]:
        with database.explained(self._path):
            return rows.read_trials(self._connection)

    def start_trial(self, block: Block, position: int) -> int:
        with self._transaction() as run:
            run("UPDATE block SET status = 'started' WHERE id = ? AND status = 'planned'", (block.index,))
            found = run(
                "UPDATE trial SET status = 'started', started = ? "
                "WHERE block = ? AND position = ? AND status = 'planned' "
                "RETURNING id",
                (self.elapsed(), block.index, position),
            ).fetchone()
        if found is None:
            raise HeapyardError(
                f"{self._path}: trial {position} of block {block.index} is not in the plan, or ran before"
            )
        return found["id"]

    def end_trial(self, trial: int, outcome: TrialOutcome) -> None:
        ended = self.elapsed()
        try:
            series = write_series(self.folder, outcome.series) if outcome.series else ""
            result = write_result(self.folder, outcome.result) if outcome.result else ""
        except OSError as error:
            raise HeapyardError(f"{self.folder}: the trial's series cannot be stored ({error.strerror})") from None
        with self._transaction() as run:
            _write_end(run, trial, outcome, ended, series, result)

    def take_returned(self, block: Block, node: str, snapshot: object, trials: Sequence[ReturnedTrial]) -> dict[int, int]:
        """Take what a block of another machine brought back, in one transaction; the trials' ids by position.

        Takes what is not there yet: a block that comes back twice counts once. Clocks of other machines are not trusted: the
        block is said to have ended now, or after the last trial here, and its trials lie as far apart as they did there.
        """
        length = max((t.began + t.seconds for t in trials), default=0.0)
        begin = max(self.elapsed() - length, 0.0)
        try:
            beside = {
                t.position: (
                    write_series(self.folder, t.outcome.series) if t.outcome.series else "",
                    write_result(self.folder, t.outcome.result) if t.outcome.result else "",
                )
                for t in trials
            }
        except OSError as error:
            raise HeapyardError(f"{self.folder}: the trial's series cannot be stored ({error.strerror})") from None
        found: dict[int, int] = {}
        with self._transaction() as run:
            run(
                "INSERT INTO node VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET snapshot_json = excluded.snapshot_json "
                "WHERE snapshot_json = '{}'",  # a block that was lost told nothing of its node
                (node, encode(snapshot)),
            )
            run("UPDATE block SET node = ?, status = 'started' WHERE id = ? AND status = 'planned'", (node, block.index))
            for t in sorted(trials, key=lambda t: t.began):
                row = run(
                    "UPDATE trial SET started = ? WHERE block = ? AND position = ? AND status = 'planned' RETURNING id",
                    (begin + t.began, block.index, t.position),
                ).fetchone()
                if row is not None:
                    found[t.position] = row["id"]
                    _write_end(run, row["id"], t.outcome, begin + t.began + t.seconds, *beside[t.position])
        return found

    def end_block(self, block: Block, status: BlockStatus) -> None:
        with self._transaction() as run:
            run("UPDATE block SET status = ? WHERE id = ?", (status, block.index))

    def set_node(self, block: Block, node: str, snapshot: object) -> None:
        """The machine of a fleet that runs the block; its state is kept as it was for its first block."""
        with self._transaction() as run:
            run("INSERT OR IGNORE INTO node VALUES (?, ?)", (node, encode(snapshot)))
            run("UPDATE block SET node = ? WHERE id = ?", (node, block.index))

    def event(self, kind: str, text: str) -> None:
        with self._transaction() as run:
            run("INSERT INTO event (at, kind, text) VALUES (?, ?, ?)", (self.elapsed(), kind, text))

    def snapshot(self, moment: str, environment: object) -> None:
        """The state of the machine at a `moment`: start, resumed or end."""
        with self._transaction() as run:
            run(
                "INSERT INTO environment (at, moment, snapshot_json) VALUES (?, ?, ?)",
                (self.elapsed(), moment, encode(environment)),
            )

    def set_status(self, status: str) -> None:
        """running | finished | interrupted | failed."""
        with self._transaction() as run:
            run("UPDATE experiment SET status = ?", (status,))

    def set_settings(self, settings: Settings) -> None:
        """The user has changed what may change on resumption: the budget, the consent to change the machine."""
        with self._transaction() as run:
            run("UPDATE experiment SET settings_json = ?", (encode(settings),))

    def set_verdict(self, sentence: str) -> None:
        """What the list of experiments shows of the answer."""
        with self._transaction() as run:
            run("UPDATE experiment SET verdict = ?", (sentence,))

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        with database.explained(self._path):
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection.execute
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


def _write_end(
    run: Callable[..., sqlite3.Cursor], trial: int, outcome: TrialOutcome, ended: float, series: str, result: str
) -> None:
    run(
        "UPDATE trial SET status = ?, ended = ?, command_line = ?, provider = ?, answer = ?, exit_code = ?, "
        "signal = ?, failure = ?, reason = ?, stderr_tail = ?, guards_json = ?, tripped_json = ?, "
        "detail_json = ?, series = ?, result = ? "
        "WHERE id = ?",
        (
            outcome.status,
            ended,
            outcome.command_line,
            outcome.provider,
            outcome.answer,
            outcome.exit_code,
            outcome.signal,
            outcome.failure,
            outcome.reason,
            outcome.stderr_tail,
            encode(outcome.guards),
            encode(outcome.tripped),
            encode(outcome.detail),
            series,
            result,
            trial,
        ),
    )
    for m in outcome.defined:
        run("INSERT OR IGNORE INTO metric VALUES (?, ?, ?, ?)", (m.name, m.title, m.unit, m.direction))
    for metric, value in outcome.metrics.items():
        run("INSERT INTO response VALUES (?, ?, ?)", (trial, metric, float(value)))


def create(experiment: Experiment, parent: Path | None = None) -> StoredJournal:
    """A new experiment under `parent` (default: the results folder), its request stored.

    HeapyardError when it cannot be.
    """
    folder = new_folder(parent)
    lock = ExperimentLock(folder)

    def fill(connection: sqlite3.Connection) -> None:
        created = datetime.now(UTC).isoformat()
        rows.write_experiment(connection, experiment, folder.name, created, __version__)

    return StoredJournal(folder, database.create(folder / database.FILE_NAME, fill), lock)


def reopen(folder: Path) -> StoredJournal:
    """An experiment to go on with. HeapyardError when it is being carried out, damaged, or newer than this Heapyard."""
    lock = ExperimentLock(folder)
    return StoredJournal(folder, database.open_to_write(folder / database.FILE_NAME), lock)

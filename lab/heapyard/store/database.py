# SPDX-License-Identifier: Apache-2.0
"""Opening an experiment's SQLite file, and what its errors mean to a person."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ..model.errors import HeapyardError
from ..model.metrics import METRICS
from .filesystem import network_type

SCHEMA_VERSION = 3
FILE_NAME = "experiment.sqlite"

# Before mutators: neither results nor figures, claims and suites.
_FROM_1_TO_2 = """
ALTER TABLE trial ADD COLUMN result TEXT NOT NULL DEFAULT '';
ALTER TABLE experiment ADD COLUMN suite TEXT NOT NULL DEFAULT '';
CREATE TABLE figure (place INTEGER PRIMARY KEY, definition_json TEXT NOT NULL) STRICT;
CREATE TABLE claim (place INTEGER PRIMARY KEY, definition_json TEXT NOT NULL) STRICT;
"""
# Before fleets: every block ran on the lab's own machine.
_FROM_2_TO_3 = """
ALTER TABLE block ADD COLUMN node TEXT NOT NULL DEFAULT '';
CREATE TABLE node (name TEXT PRIMARY KEY, snapshot_json TEXT NOT NULL) STRICT;
"""
_STEPS = {1: _FROM_1_TO_2, 2: _FROM_2_TO_3}  # by the version they start from

_MEANINGS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PERM: "permission denied",
    sqlite3.SQLITE_BUSY: "another process is writing to it",
    sqlite3.SQLITE_NOTADB: "this is not an experiment's file, or it is damaged",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_IOERR: "the disk reports an error",
}


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into one sentence that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        meaning = _MEANINGS.get(code & 0xFF) if code is not None else None
        raise HeapyardError(f"{path}: {meaning or error}") from error


def create(path: Path, fill: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    """A new file with the schema and what `fill` writes, ready to be continued; it appears whole or not at all.

    HeapyardError when that is not possible.
    """
    draft = _draft(path)
    schema = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
    with explained(path), closing(_connect(f"{draft.absolute().as_uri()}?mode=rwc")) as connection:
        connection.executescript(f"BEGIN; {schema} PRAGMA user_version={SCHEMA_VERSION}; COMMIT;")
        connection.execute("BEGIN")
        metrics = [(m.name, m.title, m.unit, m.direction) for m in METRICS.values()]
        connection.executemany("INSERT INTO metric VALUES (?, ?, ?, ?)", metrics)
        fill(connection)
        connection.execute("COMMIT")
    draft.replace(path)
    return open_to_write(path)


def open_to_write(path: Path) -> sqlite3.Connection:
    """An existing file, to be continued."""
    with explained(path):
        connection = _connect(f"{path.absolute().as_uri()}?mode=rw")
        for version in range(_check_version(connection, path), SCHEMA_VERSION):
            connection.executescript(f"BEGIN; {_STEPS[version]} PRAGMA user_version={version + 1}; COMMIT;")
        if network_type(path):
            # A write-ahead log needs memory that all readers share; across machines there is none. FULL is SQLite's default.
            connection.execute("PRAGMA journal_mode=DELETE")
            connection.execute("PRAGMA synchronous=FULL")
        else:
            # NORMAL in WAL mode: a killed process loses nothing that was committed; a power failure may lose the last
            # commits.
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
    return connection


def open_to_read(path: Path) -> sqlite3.Connection:
    """An existing file, perhaps being written by another process; nothing of it is changed."""
    with explained(path):
        connection = _connect(f"{path.absolute().as_uri()}?mode=ro")
        try:
            _check_version(connection, path)
        except sqlite3.OperationalError:
            # SQLite must be able to write beside a file in WAL mode, unless it is promised that nobody else does.
            log = path.with_name(path.name + "-wal")
            if not path.exists() or (log.exists() and log.stat().st_size):
                raise
            connection.close()
            connection = _connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1")
            _check_version(connection, path)
    return connection


def copy(source: Path, target: Path, change: Callable[[sqlite3.Connection], None]) -> None:
    """The file as it is at this moment, perhaps being written, under another name; `change` may alter the copy before it appears.

    It appears whole or not at all. HeapyardError when that is not possible.
    """
    draft = _draft(target)
    with closing(open_to_read(source)) as read, explained(target), closing(sqlite3.connect(draft)) as connection:
        with explained(source):
            read.backup(connection)
        connection.execute("PRAGMA journal_mode=DELETE")
        change(connection)
        connection.commit()
    draft.replace(target)


def upgraded(connection: sqlite3.Connection) -> sqlite3.Connection:
    """A file of an older version as one of the newest, in memory."""
    newer = sqlite3.connect(":memory:", isolation_level=None)
    newer.row_factory = sqlite3.Row
    connection.backup(newer)
    (version,) = newer.execute("PRAGMA user_version").fetchone()
    for step in range(version, SCHEMA_VERSION):
        newer.executescript(_STEPS[step])
    return newer


def fold(path: Path) -> None:
    """Bring the file's log into the file, which may then be replaced; the caller holds the experiment's lock.

    A log that stayed would be taken for the new file's. HeapyardError while another process reads the file for long.
    """
    for _ in range(100):
        close(open_to_write(path), tidy=True)
        if not path.with_name(path.name + "-wal").exists():
            return
        time.sleep(0.1)
    raise HeapyardError(f"{path}: another process has been reading it for ten seconds", remedy="Try again when it is done.")


def close(connection: sqlite3.Connection, *, tidy: bool) -> None:
    """Close; `tidy` folds the log into the one file, which then opens anywhere, read-only folders included."""
    if tidy:
        try:
            connection.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.Error:
            pass  # a reader is looking or the disk is full; the log beside the file is part of the record then
    connection.close()


def _draft(path: Path) -> Path:
    """Where a file is written before it gets its name; what a killed process left there is removed."""
    draft = path.with_name(path.name + ".part")
    for name in (draft.name, draft.name + "-journal"):
        draft.with_name(name).unlink(missing_ok=True)
    return draft


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys=ON")
    return connection


def _check_version(connection: sqlite3.Connection, path: Path) -> int:
    """The file's version, if this Heapyard can read it."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise HeapyardError(
            f"{path}: was written by a newer Heapyard (schema {version}, this one reads up to {SCHEMA_VERSION})",
            remedy="Use that Heapyard, or export the data with it.",
        )
    if version < 1:
        raise HeapyardError(f"{path}: is not an experiment's file, or its creation was cut short")
    return version

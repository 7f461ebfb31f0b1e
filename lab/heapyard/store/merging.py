# SPDX-License-Identifier: Apache-2.0
"""Bringing experiments of several folders into one, without counting anything twice.

Nothing is changed in place: a merged file is written beside the old one and takes its name in one step. Whoever is killed
leaves the state before, or the state after. One merge at a time writes into a folder.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..design.blocks import place_in_round
from ..model.errors import HeapyardError, UsageError
from . import database, series
from .copies import RESULT, SERIES, TRIAL, Attempt, Chain, Copy, Key, join, machine_of, read_copy, read_identity
from .folders import experiment_folders
from .locks import ExperimentLock, FolderLock
from .memory_parts import NAME as MEMORY
from .results import FOLDER as RESULTS

Outcome = Literal["new", "same", "extended", "apart", "busy", "unreadable"]

_STAGES = ("warmup", "pilot", "main")


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of one experiment. `taken`: complete blocks that only the copy had; `twice`: complete blocks that both had run
    on their own, of which one counts. `why`: a sentence, where it could not be brought together."""

    id: str
    source: Path
    folder: Path
    outcome: Outcome
    taken: int = 0
    twice: int = 0
    why: str = ""


def sources_in(folder: Path) -> list[Path]:
    """The experiments of a folder of results, oldest first, or the one whose folder it is. UsageError when there is none."""
    if (folder / database.FILE_NAME).exists():
        return [folder]
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder")
    found = experiment_folders(folder)[::-1]
    if not found:
        raise UsageError(f"{folder}: holds no experiment", remedy="Name a folder of results, or that of one experiment.")
    return found


def merge(sources: Sequence[Path], into: Path) -> Iterator[Merged]:
    """Bring the experiments in the folders `sources` into the folder of results `into`, one after another.

    The outcome does not depend on their order, apart from the names of different experiments with the same id. An experiment that
    cannot be read, or is being carried out in `into`, is told and left out. HeapyardError when `into` cannot be written.
    O(bytes of the sources and of `into`'s requests).
    """
    remedy = "Name another folder with --into."
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HeapyardError(f"{into}: results cannot be stored there ({error.strerror})", remedy=remedy) from None
    if not os.access(into, os.W_OK | os.X_OK):
        raise HeapyardError(f"{into}: results cannot be stored there, the folder is read-only", remedy=remedy)
    for source in sources:
        with FolderLock(into):
            merged = _merge_one(source, into, _Known(into))
        yield merged


class _Known:
    """The experiments in a folder by identity. O(requests)."""

    def __init__(self, into: Path):
        self.folders: dict[str, Path] = {}
        for folder in experiment_folders(into):
            try:
                self.folders[read_identity(folder / database.FILE_NAME)] = folder
            except HeapyardError:
                continue  # a damaged one is nobody's copy; heapyard results lists it


def _merge_one(source: Path, into: Path, known: _Known) -> Merged:
    try:
        there = known.folders.get(read_identity(source / database.FILE_NAME))
        if there is None:
            return _take(source, into)
        if there.samefile(source):
            return Merged(source.name, source, there, "same")
        return _join(source, there)
    except HeapyardError as error:
        return Merged(source.name, source, into / source.name, "unreadable", why=error.message)


def _take(source: Path, into: Path) -> Merged:
    """A whole experiment that is not there yet."""
    file = source / database.FILE_NAME
    folder, outcome = into / source.name, "new"
    if (folder / database.FILE_NAME).exists():
        folder, outcome = into / f"{source.name}-{read_identity(file)[:6]}", "apart"
    folder.mkdir(exist_ok=True)
    lock = ExperimentLock(folder)
    try:
        for part in (series.FOLDER, RESULTS):
            if (source / part).is_dir():
                (folder / part).mkdir(exist_ok=True)
                for blob in (source / part).glob("*.zst"):
                    _copy(blob, folder / part / blob.name)
        if (source / MEMORY).exists():
            _copy(source / MEMORY, folder / MEMORY)

        def rename(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE experiment SET id = ?", (folder.name,))

        database.copy(file, folder / database.FILE_NAME, rename if outcome == "apart" else lambda connection: None)
    finally:
        lock.release()
    why = f"another experiment has the id {source.name}; this one is kept as {folder.name}" if outcome == "apart" else ""
    return Merged(folder.name, source, folder, outcome, why=why)  # type: ignore[arg-type]


def _join(source: Path, there: Path) -> Merged:
    """What another copy of an experiment has more."""
    try:
        lock = ExperimentLock(there)
    except HeapyardError as error:
        return Merged(there.name, source, there, "busy", why=error.message)
    try:
        path = there / database.FILE_NAME
        mine, other = read_copy(there), read_copy(source)
        both = join(mine, other)
        _copy_blobs(both, there)
        memory = source / MEMORY
        if memory.exists() and (not (there / MEMORY).exists() or memory.read_bytes() < (there / MEMORY).read_bytes()):
            _copy(memory, there / MEMORY)  # of two accounts always the same one is kept, whoever came first
        if both.content == mine.content:
            return Merged(there.name, source, there, "same", twice=_twice(mine, other))
        database.fold(path)
        with closing(database.create(path, lambda connection: _write(connection, both, there.name))) as connection:
            database.close(connection, tidy=True)
    finally:
        lock.release()
    taken = sum(c.done and not (k in mine.chains and mine.chains[k].done) for k, c in both.chains.items())
    return Merged(there.name, source, there, "extended", taken=taken, twice=_twice(mine, other))


def _twice(mine: Copy, other: Copy) -> int:
    """Complete blocks that both ran on their own."""
    return sum(
        chain.done and key in mine.chains and mine.chains[key].done and mine.chains[key].rank != chain.rank
        for key, chain in other.chains.items()
    )


def _copy_blobs(both: Copy, there: Path) -> None:
    """The series and results that the chosen trials name. One that is missing is missed when it is read."""
    columns = ((SERIES, series.FOLDER), (RESULT, RESULTS))
    for chain in both.chains.values():
        for attempt in chain.attempts:
            for trial, _ in attempt.trials:
                for column, part in columns:
                    name = f"{trial[column]}.zst"
                    if trial[column] and not (there / part / name).exists():
                        found = next((f / part / name for f in both.folders if (f / part / name).exists()), None)
                        if found is not None:
                            (there / part).mkdir(exist_ok=True)
                            _copy(found, there / part / name)


def _copy(source: Path, target: Path) -> None:
    if not target.exists() or target.name == MEMORY:
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        shutil.copyfile(source, partial)
        partial.replace(target)


def _write(connection: sqlite3.Connection, copy: Copy, name: str) -> None:
    """A copy with numbers again: blocks in the order of a plan, repeated ones behind, as they are numbered while they run."""
    header = {**copy.header, "id": name}
    columns = ", ".join(header)
    marks = ", ".join("?" * len(header))
    connection.execute(f"INSERT INTO experiment (one, {columns}) VALUES (1, {marks})", tuple(header.values()))
    for part, lines in copy.parts.items():
        for line in lines:
            connection.execute(f"INSERT INTO {part} VALUES ({', '.join('?' * len(line))})", line)
    environment = sorted(copy.environment)
    connection.executemany("INSERT INTO environment (at, moment, snapshot_json) VALUES (?, ?, ?)", environment)
    connection.executemany("INSERT INTO event (at, kind, text) VALUES (?, ?, ?)", sorted(copy.events))
    connection.executemany("INSERT OR IGNORE INTO metric VALUES (?, ?, ?, ?)", sorted(copy.metrics))
    nodes = dict(copy.nodes)
    for _, _, snapshot in environment:
        nodes.setdefault(machine_of(snapshot), snapshot)
    used = {a.node for c in copy.chains.values() for a in c.attempts if a.node}
    alone = len(used) == 1 and not used & copy.nodes.keys()  # all ran on the lab's own machine
    if not alone:
        connection.executemany("INSERT INTO node VALUES (?, ?)", [(n, nodes.get(n, "{}")) for n in sorted(used)])
    seed = copy.header["seed"]
    for number, (key, attempt) in enumerate(_in_order(copy.chains, seed)):
        stage, workload, round_ = key
        node = "" if alone else attempt.node
        connection.execute(
            "INSERT INTO block (id, stage, round, workload, attempt, status, node) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, stage, round_, workload, attempt.number, attempt.status, node),
        )
        for trial, responses in attempt.trials:
            marks = ", ".join("?" * (len(TRIAL) + 1))
            cursor = connection.execute(f"INSERT INTO trial (block, {', '.join(TRIAL)}) VALUES ({marks})", (number, *trial))
            connection.executemany("INSERT INTO response VALUES (?, ?, ?)", [(cursor.lastrowid, *r) for r in responses])


def _in_order(chains: dict[Key, Chain], seed: int) -> list[tuple[Key, Attempt]]:
    flat = [(key, attempt) for key, chain in chains.items() for attempt in chain.attempts]

    def order(entry: tuple[Key, Attempt]) -> tuple[object, ...]:
        (stage, workload, round_), attempt = entry
        known = _STAGES.index(stage) if stage in _STAGES else len(_STAGES)
        return attempt.number > 0, known, stage, round_, place_in_round(seed, round_, workload), attempt.number

    return sorted(flat, key=order)

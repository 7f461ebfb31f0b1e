# SPDX-License-Identifier: Apache-2.0
"""Reading experiments: one of them wholly, or all of them in a list."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..model.damage import DAMAGE, in_words
from ..model.errors import HeapyardError
from ..model.experiment import Block, BlockStatus, Settings
from ..model.record import Record
from . import database, rows
from .collector import collector_paused
from .folders import LAST, experiment_folders, find_folder
from .locks import is_locked
from .memory_parts import read_memory_parts
from .observe import interpreted_trials, observations_of


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the list of experiments.

    `problem` says why an experiment cannot be read; the other fields are then empty.

    `done` and `planned` count blocks, the warm-up apart.
    """

    id: str
    path: Path
    created: str = ""
    title: str = ""
    status: str = "unreadable"
    programs: tuple[str, ...] = ()
    treatments: tuple[str, ...] = ()
    trials: int = 0
    done: int = 0
    planned: int = 0
    verdict: str = ""
    suite: str = ""
    problem: str = ""


def load_record(reference: str | Path, parent: Path | None = None) -> Record:
    """Everything known of one experiment, while it runs too.

    HeapyardError in one sentence when it cannot be read. O(file).
    """
    folder = reference if isinstance(reference, Path) else find_folder(reference, parent)
    with _reading(folder) as connection, collector_paused():
        # One read transaction: a writer may add trials meanwhile, and the parts of a record must agree.
        connection.execute("BEGIN")
        header = rows.read_header(connection)
        experiment = rows.read_experiment(connection)
        rows.define_metrics(connection)
        trials = interpreted_trials(experiment.settings, rows.read_trials(connection))
        environment, nodes = rows.read_environment(connection), rows.read_nodes(connection)
        # A fleet's experiment may have gone on without it: the lab's own machine is one of them then, by the name "".
        machines = {"": environment, **nodes} if nodes else {}
        return Record(
            id=header["id"],
            path=folder,
            status=_status(header["status"], folder),
            created=header["created"],
            version=header["version"],
            experiment=experiment,
            environment=environment,
            trials=trials,
            events=rows.read_events(connection),
            observations=observations_of(experiment, trials, _processors(environment, experiment.settings), machines),
            memory=read_memory_parts(folder),
            nodes=nodes,
        )


def _processors(environment: dict[str, object], settings: Settings) -> int:
    """Processors that trials could use: of the simulated machine, else as the snapshot at the start says; 0 if it does not."""
    if settings.simulated.wanted:
        return settings.simulated.cores
    usable = environment.get("cpus_allowed")
    return len(usable) if isinstance(usable, list) else 0


def trial_detail(folder: Path, trial: int) -> dict[str, object]:
    """What the trial's launch recorded beyond its record: processes, environment padding."""
    with _reading(folder) as connection:
        row = connection.execute("SELECT pad, detail_json FROM trial WHERE id = ?", (trial,)).fetchone()
    return {"environment padding": f"{row['pad']} B", **json.loads(row["detail_json"])} if row else {}


def plan_of(folder: Path) -> list[tuple[Block, BlockStatus]]:
    """Every planned block with its status, by index."""
    with _reading(folder) as connection:
        return rows.read_plan(connection)


def settings_of(folder: Path) -> Settings:
    """What was asked for. O(1)."""
    with _reading(folder) as connection:
        return rows.read_settings(connection)


def latest(parent: Path | None = None) -> Record:
    """The newest experiment; UsageError when there is none."""
    return load_record(LAST, parent)


def list_records(parent: Path | None = None) -> list[Listed]:
    """Every experiment of the results folder, newest first; damaged ones are listed with their problem.

    O(experiments).
    """
    return [_listed(folder) for folder in experiment_folders(parent)]


def _listed(folder: Path) -> Listed:
    try:
        with _reading(folder) as connection:
            header = rows.read_header(connection)
            experiment = rows.read_experiment(connection)
            (trials,) = connection.execute("SELECT count(*) FROM trial WHERE status IN ('ok', 'failed')").fetchone()
            done, planned = connection.execute(
                "SELECT coalesce(sum(status = 'done'), 0), coalesce(sum(status IN ('done', 'planned', 'started')), 0) "
                "FROM block WHERE stage != 'warmup'"
            ).fetchone()
    except HeapyardError as error:
        return Listed(folder.name, folder, problem=error.message)
    return Listed(
        id=header["id"],
        path=folder,
        created=header["created"],
        title=header["title"],
        status=_status(header["status"], folder),
        programs=tuple(p.name for p in experiment.programs),
        treatments=tuple(t.label for t in experiment.treatments if t.role == "treatment"),
        trials=trials,
        done=done,
        planned=planned,
        verdict=header["verdict"],
        suite=experiment.suite,
    )


def _status(stored: str, folder: Path) -> str:
    """A process that was killed could not say so; nobody holding the experiment's lock does."""
    return "interrupted" if stored == "running" and not is_locked(folder) else stored


@contextmanager
def _reading(folder: Path) -> Iterator[sqlite3.Connection]:
    path = folder / database.FILE_NAME
    connection = database.open_to_read(path)
    try:
        with database.explained(path):
            yield connection
    except DAMAGE as error:
        raise HeapyardError(f"{path}: the file is damaged ({in_words(error)})") from error
    finally:
        connection.close()

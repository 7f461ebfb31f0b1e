# SPDX-License-Identifier: Apache-2.0
"""Between the tables of an experiment's file and the model."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from dataclasses import replace
from sys import intern
from typing import TypeVar

from ..model.answers import wrong_answers
from ..model.claim import Claim
from ..model.experiment import Block, BlockStatus, Experiment, Settings, Treatment
from ..model.figure import Figure
from ..model.leading import PEAK_RSS
from ..model.metrics import METRICS, define, display_order, own_metric
from ..model.program import Program
from ..model.record import Event, TrialRecord
from .codec import decode, encode

T = TypeVar("T")

COUNTED_STAGES = ("pilot", "main")


def write_experiment(
    connection: sqlite3.Connection, experiment: Experiment, name: str, created: str, version: str
) -> None:
    """The request, in the tables experiment, program, treatment, figure and claim."""
    connection.execute(
        "INSERT INTO experiment (one, id, title, status, created, version, seed, argv_json, cwd, settings_json, study, "
        "suite) VALUES (1, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            name,
            experiment.title,
            created,
            version,
            experiment.settings.seed,
            encode(experiment.argv),
            experiment.cwd,
            encode(experiment.settings),
            experiment.study,
            experiment.suite,
        ),
    )
    connection.executemany(
        "INSERT INTO program VALUES (?, ?, ?)", [(i, p.name, encode(p)) for i, p in enumerate(experiment.programs)]
    )
    connection.executemany(
        "INSERT INTO treatment VALUES (?, ?, ?, ?)",
        [(i, t.label, t.role, encode(t)) for i, t in enumerate(experiment.treatments)],
    )
    for table, parts in (("figure", experiment.figures), ("claim", experiment.claims)):
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(i, encode(p)) for i, p in enumerate(parts)])


def read_header(connection: sqlite3.Connection) -> sqlite3.Row:
    """The one row of the table experiment."""
    header = connection.execute("SELECT * FROM experiment").fetchone()
    if header is None:
        raise sqlite3.DatabaseError("the file holds no experiment; its creation was cut short")
    return header


def read_experiment(connection: sqlite3.Connection) -> Experiment:
    """The request as it was stored."""
    header = read_header(connection)
    return Experiment(
        title=header["title"],
        settings=_settings(header),
        programs=tuple(
            decode(Program, r[0]) for r in connection.execute("SELECT definition_json FROM program ORDER BY place")
        ),
        treatments=tuple(
            decode(Treatment, r[0]) for r in connection.execute("SELECT definition_json FROM treatment ORDER BY place")
        ),
        argv=decode(tuple[str, ...], header["argv_json"]),
        cwd=header["cwd"],
        study=header["study"],
        suite=_later(header, "suite"),
        figures=_parts(connection, "figure", Figure),
        claims=_parts(connection, "claim", Claim),
    )


def read_settings(connection: sqlite3.Connection) -> Settings:
    """The settings alone."""
    return _settings(read_header(connection))


def define_metrics(connection: sqlite3.Connection) -> None:
    """Make the responses known that mutators defined in this experiment."""
    rows = connection.execute("SELECT * FROM metric ORDER BY rowid")
    define(own_metric(r["name"], r["unit"], r["direction"], r["title"]) for r in rows if r["name"] not in METRICS)


def read_plan(connection: sqlite3.Connection) -> list[tuple[Block, BlockStatus]]:
    """Blocks with their orders, by index. O(trials)."""
    orders: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for row in connection.execute("SELECT block, treatment, pad FROM trial ORDER BY block, position"):
        orders[row["block"]].append((row["treatment"], row["pad"]))
    found: list[tuple[Block, BlockStatus]] = []
    for row in connection.execute("SELECT * FROM block ORDER BY id"):
        order, pads = zip(*orders[row["id"]], strict=True)
        block = Block(row["id"], row["stage"], row["round"], row["workload"], order, pads, row["attempt"])
        found.append((block, row["status"]))
    return found


def read_trials(connection: sqlite3.Connection) -> tuple[TrialRecord, ...]:
    """Every trial that was started, in the order they ran; wrong answers are failures. O(trials x metrics)."""
    metrics: dict[int, dict[str, float]] = defaultdict(dict)
    for trial, metric, value in connection.execute("SELECT trial, metric, value FROM response"):
        metrics[trial][intern(metric)] = value  # one name for all trials: they are most of what is held
    node = ", block.node" if _has_nodes(connection) else ""
    query = (
        f"SELECT trial.*, block.attempt, block.stage, block.round, block.workload, block.status AS block_status{node} "
        "FROM trial JOIN block ON block.id = trial.block WHERE trial.status != 'planned' "
        "ORDER BY trial.started, trial.id"
    )
    orders: dict[tuple[str, ...], tuple[str, ...]] = {}  # nearly all trials have the same metrics

    def ordered(found: dict[str, float]) -> dict[str, float]:
        names = tuple(found)
        if names not in orders:
            orders[names] = display_order(names)
        return {name: found[name] for name in orders[names]}

    trials = [_trial(row, ordered(metrics.pop(row["id"], {}))) for row in connection.execute(query)]
    programs = [decode(Program, r[0]) for r in connection.execute("SELECT definition_json FROM program")]
    wrong = wrong_answers(trials, programs, _reference(connection))
    return tuple(_judged(t, wrong[t.id]) if t.id in wrong else t for t in trials)


def read_events(connection: sqlite3.Connection) -> tuple[Event, ...]:
    return tuple(Event(r["at"], r["kind"], r["text"]) for r in connection.execute("SELECT * FROM event ORDER BY id"))


def read_environment(connection: sqlite3.Connection) -> dict[str, object]:
    """The snapshot taken at the start; later ones under their moment ("resumed", "end"), each only where it differs."""
    first: dict[str, object] = {}
    for row in connection.execute("SELECT moment, snapshot_json FROM environment ORDER BY id"):
        snapshot = json.loads(row["snapshot_json"])
        if not first:
            first = snapshot
        else:
            first[row["moment"]] = {k: v for k, v in snapshot.items() if first.get(k) != v}
    return first


def read_nodes(connection: sqlite3.Connection) -> dict[str, dict[str, object]]:
    """The machines of a fleet by name, each with its snapshot; none where every block ran on the lab's own."""
    if not _has_nodes(connection):
        return {}
    return {r["name"]: json.loads(r["snapshot_json"]) for r in connection.execute("SELECT * FROM node ORDER BY rowid")}


def _has_nodes(connection: sqlite3.Connection) -> bool:
    """Files of versions 1 and 2 know no fleet."""
    return bool(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'node'").fetchone())


def _settings(header: sqlite3.Row) -> Settings:
    """As they were meant: where none is named, the response of memory was peak RSS."""
    return decode(Settings, encode({"memory_metric": PEAK_RSS} | json.loads(header["settings_json"])))


def _later(row: sqlite3.Row, column: str) -> str:
    """A column that files of earlier versions do not have."""
    return row[column] if column in row.keys() else ""


def _parts(connection: sqlite3.Connection, table: str, kind: type[T]) -> tuple[T, ...]:
    """The figures or claims; none in files of version 1."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone():
        return ()
    return tuple(decode(kind, r[0]) for r in connection.execute(f"SELECT definition_json FROM {table} ORDER BY place"))


def _reference(connection: sqlite3.Connection) -> set[str]:
    baseline = _settings(read_header(connection)).baseline
    return {baseline, *(r[0] for r in connection.execute("SELECT label FROM treatment WHERE role = 'control'"))}


def _trial(row: sqlite3.Row, metrics: dict[str, float]) -> TrialRecord:
    counted = row["status"] == "ok" and row["block_status"] == "done" and row["stage"] in COUNTED_STAGES
    return TrialRecord(
        id=row["id"],
        block=row["block"],
        attempt=row["attempt"],
        stage=intern(row["stage"]),
        workload=intern(row["workload"]),
        treatment=intern(row["treatment"]),
        position=row["position"],
        status=row["status"],
        counted=counted,
        started=row["started"],
        ended=row["ended"] if row["ended"] is not None else row["started"],
        metrics=metrics,
        command_line=intern(row["command_line"]),
        provider=intern(row["provider"]),
        answer=intern(row["answer"]),
        exit_code=row["exit_code"],
        signal=row["signal"],
        reason=row["reason"],
        failure=row["failure"],
        stderr_tail=row["stderr_tail"],
        guards=json.loads(row["guards_json"]),
        tripped=tuple(json.loads(row["tripped_json"])),
        series=row["series"],
        round=row["round"],
        result=_later(row, "result"),
        node=intern(_later(row, "node")),
        loaded=_loaded(row["detail_json"]),
    )


def _loaded(detail: str) -> tuple[float, float]:
    """Most trials are of no server, and their processes, which the text is full of, are not wanted."""
    begin, end = json.loads(detail).get("loaded", (0.0, 0.0)) if '"loaded"' in detail else (0.0, 0.0)
    return begin, end


def _judged(trial: TrialRecord, sentence: str) -> TrialRecord:
    return replace(trial, status="failed", failure="wrong answer", reason=sentence, counted=False)

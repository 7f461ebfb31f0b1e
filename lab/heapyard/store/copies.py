# SPDX-License-Identifier: Apache-2.0
"""One copy of an experiment, without the numbers of its rows, and what two copies come to together.

Copies of one experiment may go on in different places. Their plans agree by seed, so a block is known by stage, workload and
round. `join` is associative, commutative and idempotent: it takes unions, and the greater of two in a total order.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..model.damage import DAMAGE, in_words
from ..model.errors import HeapyardError
from . import database, rows

Key = tuple[str, str, int]  # stage, workload, round

REQUEST = ("created", "version", "seed", "argv_json", "cwd", "study", "suite", "title")
PARTS = ("program", "treatment", "figure", "claim")
RESUMABLE = ("budget", "change_system")  # settings that may change when an experiment goes on
_STATUS = ("failed", "interrupted", "finished")
_MACHINE = ("architecture", "cpus_online", "cpu")

Trial = tuple[tuple[Any, ...], tuple[tuple[str, float], ...]]  # its columns after `block`, its responses


@dataclass(frozen=True, slots=True)
class Attempt:
    """A block as it was planned and, perhaps, run. `node`: the machine that ran it, '' before."""

    number: int
    status: str
    node: str
    trials: tuple[Trial, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """All attempts at one block. `rank` decides between two: one that ended before one that did not, then the one whose last
    attempt began first. Neither looks at a response of the block."""

    attempts: tuple[Attempt, ...]
    rank: tuple[int, int, float, str]

    @property
    def done(self) -> bool:
        return self.attempts[-1].status == "done"


@dataclass(frozen=True, slots=True)
class Copy:
    """`identity`: what was asked, when and by whom; the same for every copy. Sets hold rows without their numbers."""

    identity: str
    header: dict[str, Any]
    parts: dict[str, list[tuple[Any, ...]]]
    environment: frozenset[tuple[float, str, str]]
    events: frozenset[tuple[float, str, str]]
    metrics: frozenset[tuple[str, str, str, str]]
    nodes: dict[str, str]
    chains: dict[Key, Chain]
    folders: tuple[Path, ...]  # where its series and results lie

    @property
    def content(self) -> tuple[object, ...]:
        """What two equal copies agree in; the folder and the name apart."""
        kept = {name: value for name, value in self.header.items() if name not in ("id", "verdict")}
        return kept, self.environment, self.events, self.metrics, self.chains


def read_identity(path: Path) -> str:
    """The identity of the experiment in a file; HeapyardError when it cannot be read. O(request)."""
    with _reading(path) as connection:
        return _identity(rows.read_header(connection), _parts(connection))


def read_copy(folder: Path) -> Copy:
    """The copy in a folder, as it is at this moment, while it runs too. HeapyardError when it cannot be read. O(file)."""
    with _reading(folder / database.FILE_NAME) as connection:
        connection.execute("BEGIN")
        header, parts = rows.read_header(connection), _parts(connection)
        environment = frozenset(tuple(r) for r in connection.execute("SELECT at, moment, snapshot_json FROM environment"))
        known = dict(header)
        del known["one"]
        known["status"] = "interrupted" if known["status"] == "running" else known["status"]
        return Copy(
            _identity(header, parts),
            known,
            parts,
            environment,
            frozenset(tuple(r) for r in connection.execute("SELECT at, kind, text FROM event")),
            frozenset(tuple(r) for r in connection.execute("SELECT name, title, unit, direction FROM metric")),
            {r["name"]: r["snapshot_json"] for r in connection.execute("SELECT * FROM node ORDER BY rowid")},
            _chains(connection, environment),
            (folder,),
        )


def join(one: Copy, other: Copy) -> Copy:
    """What both hold. ValueError for copies of different experiments. O(trials)."""
    if one.identity != other.identity:
        raise ValueError("two experiments")
    chains = dict(one.chains)
    for key, chain in other.chains.items():
        if key not in chains or chain.rank > chains[key].rank:
            chains[key] = chain
    verdicts = {c.header["verdict"] for c in (one, other) if c.chains == chains}
    header = {
        **min((one.header, other.header), key=lambda h: str(h["id"])),
        "status": max((one.header["status"], other.header["status"]), key=_STATUS.index),
        "settings_json": max((one.header["settings_json"], other.header["settings_json"]), key=_generosity),
        "verdict": max(verdicts, default=""),
    }
    metrics: dict[str, tuple[str, str, str, str]] = {}
    for row in sorted(one.metrics | other.metrics):
        metrics.setdefault(row[0], row)
    shared = {name: min(filter(None, (one.nodes.get(name), other.nodes.get(name)))) for name in {*one.nodes, *other.nodes}}
    return replace(
        one,
        header=header,
        environment=one.environment | other.environment,
        events=one.events | other.events,
        metrics=frozenset(metrics.values()),
        nodes=dict(sorted(shared.items())),
        chains=chains,
        folders=tuple(dict.fromkeys((*one.folders, *other.folders))),
    )


def machine_of(snapshot_json: str) -> str:
    """A name for the machine of a snapshot: its host name; before snapshots had that, a digest of what it has."""
    snapshot = json.loads(snapshot_json)
    if snapshot.get("host"):
        return str(snapshot["host"])
    facts = {name: snapshot.get(name) for name in _MACHINE}
    if isinstance(facts["cpu"], dict):
        facts["cpu"] = {name: value for name, value in facts["cpu"].items() if name != "mhz"}
    total = (snapshot.get("memory_kib") or {}).get("MemTotal")
    return f"machine-{_digest(facts, total)[:6]}"


def _generosity(settings_json: str) -> tuple[float, bool, str]:
    settings = json.loads(settings_json)
    budget = settings.get("budget")
    return (math.inf if budget is None else budget, bool(settings.get("change_system")), settings_json)


def _identity(header: sqlite3.Row, parts: dict[str, list[tuple[Any, ...]]]) -> str:
    settings = {k: v for k, v in json.loads(header["settings_json"]).items() if k not in RESUMABLE}
    asked = [header[name] for name in REQUEST if name in header.keys()]
    return _digest(asked, settings, parts)


def _digest(*content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _parts(connection: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    return {part: [tuple(r) for r in connection.execute(f"SELECT * FROM {part} ORDER BY place")] for part in PARTS}


def _chains(connection: sqlite3.Connection, environment: frozenset[tuple[float, str, str]]) -> dict[Key, Chain]:
    responses: dict[int, list[tuple[str, float]]] = defaultdict(list)
    for row in connection.execute("SELECT trial, metric, value FROM response ORDER BY trial, metric"):
        responses[row["trial"]].append((row["metric"], row["value"]))
    trials: dict[int, list[Trial]] = defaultdict(list)
    for row in connection.execute(f"SELECT id, block, {', '.join(TRIAL)} FROM trial ORDER BY block, position"):
        trials[row["block"]].append((tuple(row)[2:], tuple(responses.get(row["id"], ()))))
    machines = sorted((at, machine_of(text)) for at, _, text in environment)
    found: dict[Key, list[Attempt]] = defaultdict(list)
    for b in connection.execute("SELECT * FROM block ORDER BY attempt, id"):
        began = min((t[0][STARTED] for t in trials[b["id"]] if t[0][STARTED] is not None), default=None)
        node = b["node"] or ("" if began is None else _machine_at(machines, began))
        attempts = found[b["stage"], b["workload"], b["round"]]
        if any(a.number == b["attempt"] for a in attempts):
            raise sqlite3.DatabaseError("a block is planned twice under one number")
        attempts.append(Attempt(b["attempt"], b["status"], node, tuple(trials[b["id"]])))
    return {key: Chain(tuple(attempts), _rank(attempts)) for key, attempts in found.items()}


TRIAL = (
    "position", "treatment", "pad", "status", "started", "ended", "command_line", "provider", "answer", "exit_code", "signal",
    "failure", "reason", "stderr_tail", "guards_json", "tripped_json", "detail_json", "series", "result",
)  # fmt: skip
STARTED, ENDED, SERIES, RESULT = (TRIAL.index(name) for name in ("started", "ended", "series", "result"))


def _machine_at(machines: list[tuple[float, str]], began: float) -> str:
    """The machine whose snapshot was the last before; the first one's where clocks disagree."""
    before = [name for at, name in machines if at <= began]
    return before[-1] if before else machines[0][1] if machines else ""


def _rank(attempts: list[Attempt]) -> tuple[int, int, float, str]:
    began = any(t[0][STARTED] is not None for a in attempts for t in a.trials)
    ended = {"done": 3, "abandoned": 2}.get(attempts[-1].status, 1 if began else 0)
    # Of the last attempt, since copies may share earlier ones.
    starts = [t[0][STARTED] for t in attempts[-1].trials if t[0][STARTED] is not None]
    ran = sum(t[0][ENDED] is not None for a in attempts for t in a.trials) if ended == 1 else 0
    content = [(a.number, a.status, a.node, a.trials) for a in attempts]
    return ended, ran, -min(starts, default=0.0), _digest(content)


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A file of any version as one of the newest; it stays as it is."""
    try:
        with closing(database.open_to_read(path)) as connection, database.explained(path):
            if connection.execute("PRAGMA user_version").fetchone()[0] == database.SCHEMA_VERSION:
                yield connection
                return
            with closing(database.upgraded(connection)) as newer:
                yield newer
    except DAMAGE as error:
        raise HeapyardError(f"{path}: the file is damaged ({in_words(error)})") from error

# SPDX-License-Identifier: Apache-2.0
"""The record of a run: a file of JSON lines, each appended as soon as it is known. A line that was cut off is left out.

Kinds, by the field `k`: `command` (somebody began to look after the run), `mode`, `begin` and `end` of a stretch, `sample`,
`pass`, `note`, `failed`, `complete`. `a` is the allocator, `t` the clock; `at` counts seconds under load.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...model.hours import Noted, Pass, Sample, Stretch


class Notebook:
    """Appends; one write per line, so that the file never holds half of two."""

    def __init__(self, path: Path):
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if (size := os.fstat(self._file).st_size) and _last(path, size) != b"\n":
            os.write(self._file, b"\n")  # what a power failure cut off stays a line of its own

    def write(self, kind: str, allocator: str = "", **fields: Any) -> None:
        line = {"k": kind, "t": round(time.time(), 3), **({"a": allocator} if allocator else {}), **fields}
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


def _last(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(size - 1)
        return file.read(1)


@dataclass(slots=True)
class Contents:
    """What the record holds. `mode` and `why` are "" until they are decided; `complete`: the last command came to its end."""

    servers: dict[str, Noted] = field(default_factory=dict)
    seconds: float = 0.0
    mode: str = ""
    why: str = ""
    complete: bool = False
    commands: int = 0


def read_notebook(path: Path) -> Contents:
    """O(bytes). An absent file reads as an empty one."""
    found = Contents()
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return found
    for line in lines:
        try:
            _take(found, json.loads(line))
        except (ValueError, KeyError, TypeError, IndexError):
            continue
    return found


def _take(found: Contents, line: dict[str, Any]) -> None:
    kind = line["k"]
    if kind == "command":
        found.seconds, found.complete, found.commands = float(line["seconds"]), False, found.commands + 1
    elif kind == "mode":
        found.mode, found.why = str(line["mode"]), str(line["why"])
    elif kind == "complete":
        found.complete = True
    else:
        _take_of(found.servers.setdefault(line["a"], Noted(line["a"])), kind, line)


def _take_of(server: Noted, kind: str, line: dict[str, Any]) -> None:
    if kind == "begin":
        server.stretches.append(Stretch(int(line["s"]), line["t"], bool(line["fresh"]), int(line["pid"]), float(line["at"]),
                                        str(line.get("traces", ""))))
        server.failed = ""
    elif kind == "sample":
        rss, anonymous, peak, processes = map(int, line["m"])
        server.samples.append(
            Sample(int(line["s"]), float(line["at"]), float(line["t"]), rss, anonymous, peak, processes, float(line["cpu"])))
    elif kind == "pass":
        metrics = {str(name): float(value) for name, value in line["metrics"].items()}
        server.passes.append(Pass(int(line["s"]), float(line["from"]), float(line["at"]), metrics))
    elif kind == "end":
        last = server.stretches[-1]
        server.stretches[-1] = Stretch(last.number, last.clock, last.fresh, last.pid, last.begin, last.traces, str(line["why"]))
    elif kind == "note":
        server.notes.append((float(line["at"]), str(line["text"])))
    elif kind == "failed":
        server.failed = str(line["why"])

# SPDX-License-Identifier: Apache-2.0
"""What `heapyard fuzz` plays, and what it finds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from pathlib import Path
from typing import Any

from .damage import reading
from .errors import UsageError


ALIGNED = frozenset(("aligned_alloc", "posix_memalign", "memalign", "new_aligned", "new[]_aligned"))  # `other`: at which
LEAST_ALIGNMENT = 8

_KIND, _CALL = re.compile("[a-z]+"), re.compile(r"[a-z0-9_\[\]]*")
# As lab/native/fuzz/operation.cpp reads it, which also knows the calls.
_OPERATION = re.compile(
    r" *(?P<thread>[0-9]{1,3}) +(?P<call>[a-z0-9_\[\]]+) +(?P<slot>[0-9]{1,5}) +(?P<size>[0-9]{1,20}) +(?P<other>[0-9]{1,20}) *")


@dataclass(frozen=True, slots=True)
class Operation:
    """One call on one slot of one thread, as lab/native/fuzz/operation.hpp defines it."""

    thread: int
    call: str
    slot: int
    size: int
    other: int

    def __str__(self) -> str:
        return f"{self.thread} {self.call} {self.slot} {self.size} {self.other}"


def parse_operations(lines: Iterable[str], name: str) -> tuple[Operation, ...]:
    """Lines as the native program writes them; UsageError that names the line of `name`. Comments begin with #."""
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip(" \r") or line.startswith("#"):
            continue
        told = _OPERATION.fullmatch(line.rstrip("\r"))
        if told is None:
            raise UsageError(f"{name}, line {number}: this is no operation: {line.strip()[:60]}")
        found.append(Operation(int(told["thread"]), told["call"], *(int(told[name]) for name in ("slot", "size", "other"))))
    return tuple(found)


def read_operations(path: Path) -> tuple[tuple[Operation, ...], str]:
    """The operations of a file, and its first line, which may say how they are played. UsageError when it cannot be read."""
    with reading(path, "file of operations"):
        if not path.is_file():
            raise UsageError(f"{path}: is not a file; operations are read more than once")
        lines = path.read_text(encoding="utf-8").split("\n")
    return parse_operations(lines, str(path)), lines[0]


@dataclass(frozen=True, slots=True)
class Round:
    """What one process plays: random operations of a seed. `turns`: one thread at a time, so that each run is the same."""

    seed: int
    operations: int
    threads: int = 1
    turns: bool = False
    signals: bool = False
    forks: bool = True

    @property
    def words(self) -> list[str]:
        """The options of the native program."""
        words = ["--seed", str(self.seed), "--operations", str(self.operations), "--threads", str(self.threads)]
        return words + self.ways

    @property
    def ways(self) -> list[str]:
        """Those that also count where operations come from a file."""
        flags = (("--turns", self.turns), ("--signals", self.signals), ("--no-forks", not self.forks))
        return [flag for flag, on in flags if on]


def draw_round(seed: int, threads: int | None = None) -> Round:
    """The round of a seed: short or long, with one thread or several, with forks and signals or without."""
    draw = Random(seed)
    count = threads or draw.choice((1, 1, 2, 2, 3, 4, 8))
    operations = int(10 ** draw.uniform(4.5, 6.5)) * (10 if draw.random() < 0.04 else 1)
    turns = count > 1 and draw.random() < 0.3
    signals = not turns and draw.random() < (0.6 if count > 1 else 0.2)
    return Round(seed, operations, count, turns, signals, draw.random() < 0.6)


@dataclass(frozen=True, slots=True)
class Violation:
    """What ended a run. `kind`: one word, by which another run is recognised to find the same; `operation`: how many the
    thread had begun by then, 0 if that is not known."""

    kind: str
    text: str
    thread: int = 0
    operation: int = 0
    call: str = ""

    @classmethod
    def of(cls, told: dict[str, Any]) -> Violation:
        """As the native program tells it; an error of model.damage.DAMAGE when it is something else."""
        child = "in a forked child, " if told.get("in_child") else ""
        found = cls(told["finding"], child + told["text"], told["thread"], told["operation"], told["call"])
        if not (_KIND.fullmatch(found.kind) and _CALL.fullmatch(found.call) and type(found.thread) is type(found.operation) is int):
            raise ValueError("a library has printed something else")
        return found


@dataclass(frozen=True, slots=True)
class FuzzFinding:
    """A violation and the shortest operations that were found to bring it about. `shown`: of how many of `tried` runs.

    `name`: of its files, without their ends.
    """

    name: str
    violation: Violation
    round: Round
    operations: tuple[Operation, ...]
    shown: int
    tried: int
    played: int  # operations before it, of all rounds


@dataclass(frozen=True, slots=True)
class FuzzAnswer:
    """What was found of one library. `operations`: of all rounds so far, `now`: of this command."""

    name: str
    operations: int
    now: int
    seconds: float
    findings: Sequence[FuzzFinding]
    complete: bool = True

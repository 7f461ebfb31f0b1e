# SPDX-License-Identifier: Apache-2.0
"""What `heapyard fuzz` plays, and what it finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from .errors import UsageError


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
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            thread, call, slot, size, other = words
            found.append(Operation(int(thread), call, int(slot), int(size), int(other)))
        except ValueError:
            raise UsageError(f"{name}, line {number}: this is no operation: {line.strip()[:60]}") from None
    return tuple(found)


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
        """As the native program tells it."""
        child = "in a forked child, " if told.get("in_child") else ""
        return cls(told["finding"], child + told["text"], told["thread"], told["operation"], told["call"])


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

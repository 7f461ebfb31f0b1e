# SPDX-License-Identifier: Apache-2.0
"""What `heapyard check` asks of a malloc library, and what it found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .allocator import Allocator

# note: nothing a standard forbids, but something programs mind. information: no outcome is a fault. skipped: this machine
# does not permit to look, for the reason that is said.
CheckVerdict = Literal["pass", "note", "fail", "information", "skipped"]


@dataclass(frozen=True, slots=True)
class CheckCase:
    """One case of the native program `check_heap`; `information`: any outcome is told and none held against the library.

    `setting`: "FILE=VALUE" of the system that the case is about, which `--change-system` gives while it runs; "" for most.
    """

    group: str
    name: str
    about: str
    information: bool = False
    setting: str = ""

    @property
    def label(self) -> str:
        return f"{self.group}/{self.name}"


@dataclass(frozen=True, slots=True)
class Found:
    """What one case found. `facts`: words, or (number, unit) by name; `said`: one sentence, "" for a plain pass."""

    case: CheckCase
    verdict: CheckVerdict
    said: str
    facts: dict[str, str | tuple[float, str]]
    seconds: float


@dataclass(frozen=True, slots=True)
class ReportCard:
    """All that was found about one library; `complete` is False when the check was interrupted."""

    allocator: Allocator
    found: tuple[Found, ...]
    complete: bool = True
    failed: tuple[Found, ...] = field(init=False)
    noted: tuple[Found, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "failed", tuple(f for f in self.found if f.verdict == "fail"))
        object.__setattr__(self, "noted", tuple(f for f in self.found if f.verdict == "note"))

    @property
    def judged(self) -> list[Found]:
        """What a verdict was given on: neither information nor skipped."""
        return [f for f in self.found if f.verdict not in ("information", "skipped")]

    def number(self, fact: str) -> float | None:
        """The value of a numeric fact, whichever case told it."""
        values = (f.facts[fact] for f in self.found if fact in f.facts)
        return next((value[0] for value in values if isinstance(value, tuple)), None)

    def words(self, fact: str) -> str:
        """A fact in words, "" if no case told it."""
        return next((v for f in self.found if isinstance(v := f.facts.get(fact), str)), "")

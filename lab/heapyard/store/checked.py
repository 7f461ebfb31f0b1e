# SPDX-License-Identifier: Apache-2.0
"""What `heapyard check` said of a library when it was last asked all of it: a small file, by its content and settings."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from ..model import places
from ..model.allocator import Allocator
from ..model.check import ReportCard


@dataclass(frozen=True, slots=True)
class Checked:
    """`day` in ISO form; `judged`, `noted` and `failed` count cases."""

    day: str
    judged: int
    noted: int
    failed: int

    def __str__(self) -> str:
        """`heapyard check passes 60 of 60, 2 notes (2026-11-26)`."""
        notes = f", {self.noted} {'note' if self.noted == 1 else 'notes'}" if self.noted else ""
        return f"heapyard check passes {self.judged - self.failed} of {self.judged}{notes} ({self.day})"


def remember(card: ReportCard) -> None:
    """Keep the verdict. A disk that is full or may not be written loses it, and nothing else. O(cases)."""
    if not card.allocator.sha256:
        return
    found = Checked(date.today().isoformat(), len(card.judged), len(card.noted), len(card.failed))
    path = _file_of(card.allocator)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(asdict(found)))
        draft.replace(path)
    except OSError:
        pass


def remembered(allocator: Allocator) -> Checked | None:
    """The last verdict on this library with these settings, None if it was not asked or the file is damaged."""
    try:
        return Checked(**json.loads(_file_of(allocator).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _file_of(allocator: Allocator) -> Path:
    settings = json.dumps(allocator.env, sort_keys=True)
    return places.checked() / f"{hashlib.sha256(f'{allocator.sha256} {settings}'.encode()).hexdigest()}.json"

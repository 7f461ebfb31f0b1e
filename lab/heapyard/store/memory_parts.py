# SPDX-License-Identifier: Apache-2.0
"""Where memory lies, beside the database of an experiment: memory.json."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ..model.damage import DAMAGE
from ..model.errors import HeapyardError
from ..model.memory_parts import MemoryParts
from .codec import decode

NAME = "memory.json"


def write_memory_parts(folder: Path, found: Sequence[MemoryParts]) -> None:
    """Writes all of them, or leaves what was there; HeapyardError when it cannot."""
    partial = folder / f".{NAME}.partial"
    try:
        partial.write_text(json.dumps([asdict(row) for row in found], indent=1))
        os.replace(partial, folder / NAME)
    except OSError as error:
        raise HeapyardError(f"{folder / NAME}: {error.strerror}") from None


def read_memory_parts(folder: Path) -> tuple[MemoryParts, ...]:
    """What was found; nothing where nobody looked. HeapyardError when it cannot be read."""
    path = folder / NAME
    try:
        return decode(tuple[MemoryParts, ...], path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except (OSError, *DAMAGE):
        remedy = "Remove the file; the rest of the experiment is read."
        raise HeapyardError(f"{path} is not what heapyard wrote", remedy=remedy) from None

# SPDX-License-Identifier: Apache-2.0
"""Where an allocator's memory lies when a program has most of it: what `compare --explain-memory` finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# As people read them, in the order of tables; the keys of MemoryParts.parts.
PARTS = {
    "live": "live blocks",
    "rounding": "blocks beyond what was asked for",
    "allocator": "free, cached, and the allocator's records",
    "other": "not malloc's",
}


@dataclass(frozen=True, slots=True)
class MemoryParts:
    """Resident memory of a program's largest process under an allocator, in bytes, at its fullest look.

    `parts`: by the keys of PARTS; they add up to `resident`. `huge`: of malloc's memory what lies in huge pages.
    """

    program: str
    allocator: str
    resident: int
    parts: Mapping[str, int]
    huge: int

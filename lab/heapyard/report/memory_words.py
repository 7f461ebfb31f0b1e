# SPDX-License-Identifier: Apache-2.0
"""Where memory lies, in sentences and as a table: what an allocator has more of than the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from ..model.memory_parts import PARTS, MemoryParts
from .terminal_tables import plain_table
from .words import listed

HEADING = "Where the memory lies, MiB: one traced run each, at its fullest look"
COLUMNS = ("live", "rounding", "free & own", "other")
KEY = ("live: what the program asked for and had not freed. rounding: what its blocks are larger. free & own: free, cached, "
       "and the allocator's records. other: not malloc's.")
_MIB = float(1 << 20)
_LEAST = 1 << 20  # a smaller difference is not worth a sentence


def mib(size: float) -> str:
    """One decimal below 100 MiB."""
    return f"{size / _MIB:.1f}" if size < 100 * _MIB else f"{size / _MIB:.0f}"


def sentences(found: Sequence[MemoryParts], baseline: str) -> list[str]:
    """For each program the allocator that has most beyond the baseline, and where it lies. O(rows)."""
    told = []
    for program in dict.fromkeys(row.program for row in found):
        rows = [row for row in found if row.program == program]
        base = next((row for row in rows if row.allocator == baseline), None)
        most = max(rows, key=lambda row: row.resident)
        if base is None or most is base or (more := most.resident - base.resident) < _LEAST:
            continue
        by_part = sorted(((most.parts[key] - base.parts[key], key) for key in PARTS), reverse=True)
        where = [f"{mib(size)} more in {PARTS[key]}" for size, key in by_part if size > more / 10]
        where += [f"{mib(-size)} less in {PARTS[key]}" for size, key in by_part if -size > more / 10]
        huge = f" ({mib(most.huge)} MiB of it all lie in huge pages)" if most.huge > base.huge + more / 4 else ""
        told.append(f"{program}: {most.allocator} has {mib(more)} MiB more than {baseline}: {listed(where, 4)}{huge}.")
    return told


def memory_table(found: Sequence[MemoryParts]) -> Table:
    """A row for each program and allocator, the leanest of a program first."""
    table = plain_table()
    table.add_column("program")
    table.add_column("allocator")
    for column in ("resident", *COLUMNS):
        table.add_column(column, justify="right")
    for program in dict.fromkeys(row.program for row in found):
        rows = sorted((row for row in found if row.program == program), key=lambda row: row.resident)
        for place, row in enumerate(rows):
            table.add_row(program if place == 0 else "", row.allocator, mib(row.resident), *(mib(row.parts[key]) for key in PARTS))
    return table

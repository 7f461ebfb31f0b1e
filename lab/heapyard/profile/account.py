# SPDX-License-Identifier: Apache-2.0
"""What the resident memory of a process was at an instant, as parts that add up: the tracer's collector looked at it closely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..model.shared import Resident
from ..model.units import format_bytes, format_duration
from .chunks import Fields, numbers

if TYPE_CHECKING:
    import numpy as np

    from .chunks import Chunk
    from .trace import Snapshot, Trace


MAPPED_AS = ("shared", "huge", "swapped")
_SOON = 0.05  # seconds within which the collector looks when it is asked to


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the resident memory, in bytes. `key`: for programs; `name`: for people."""

    key: str
    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Account:
    """The account of one instant, without what the tracer takes itself. Bytes; `time` in seconds.

    `live`: of blocks that the program had not freed, resident or not. `nodes`, `mapped_resident`, `mapped`, `pieces`: per
    call chain that had memory mapped, its node, and what it owned. `mapped_as`, columns as in MAPPED_AS: what of the resident
    part other processes have too or lies in huge pages, and what lies in swap. `swapped` lies beside the resident memory too.
    """

    time: float
    live: int
    resident: int
    shared: int
    swapped: int
    rest: dict[Resident, int]
    nodes: np.ndarray
    mapped_resident: np.ndarray
    mapped: np.ndarray
    pieces: np.ndarray
    mapped_as: np.ndarray

    @property
    def parts(self) -> list[Part]:
        """They add up to `resident`, the largest first. O(chains)."""
        allocator = self.rest[Resident.ALLOCATOR]  # without what blocks are larger than was asked for
        live = min(self.live, allocator)
        parts = [
            Part("mapped", "mapped by the program", int(self.mapped_resident.sum())),
            Part("live", "live blocks", live),
            Part("rounding", "blocks beyond what was asked for", self.rest[Resident.ROUNDING]),
            Part("allocator", "more inside malloc: free, cached, its records", allocator - live),
            Part("stacks", "stacks", self.rest[Resident.STACKS]),
            Part("changed", "data of program and libraries", self.rest[Resident.CHANGED]),
            Part("as_in_files", "program and libraries as in their files", self.rest[Resident.AS_IN_FILES]),
            Part("other_files", "other files and shared memory", self.rest[Resident.OTHER_FILES]),
            Part("unknown", "unknown", self.rest[Resident.UNKNOWN]),
        ]
        return sorted(parts, key=lambda part: -part.bytes)

    def of_mappings(self) -> Snapshot:
        """What each call chain had mapped that was resident; blocks are mappings."""
        import numpy as np

        from .trace import Snapshot

        there = self.mapped_resident > 0
        return Snapshot("mapped", "", self.time, int(self.mapped_resident.sum()), self.nodes[there], self.mapped_resident[there],
                        self.pieces[there], np.zeros(int(there.sum()), np.int64), self.mapped_as[there])


def account_of(chunk: Chunk, trace_format: int) -> Account:
    """Reads a chunk of kind A (docs/trace-format.md). O(bytes)."""
    import numpy as np

    fields = Fields(chunk.data)
    live, resident, shared, swapped = (fields.number() for _ in range(4))
    parts = [fields.number() for _ in range(fields.number())]
    rows = numbers(fields.rest()).astype(np.int64).reshape(-1, 4 if trace_format == 1 else 4 + len(MAPPED_AS))
    how = rows[:, 4:] if trace_format > 1 else np.zeros((len(rows), len(MAPPED_AS)), np.int64)
    rest = {which: parts[which] if which < len(parts) else 0 for which in Resident}
    return Account(chunk.begin / 1e6, live, resident - rest[Resident.TRACER], shared, swapped, rest,
                   rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3], how)


def fullest(accounts: list[Account]) -> Account | None:
    """The one with the most resident memory; of those with as much, within a fiftieth, the one with most in live blocks.

    A program that ends has freed its blocks, and their memory is still there.
    """
    most = max((account.resident for account in accounts), default=0)
    full = [account for account in accounts if account.resident >= 0.98 * most]
    return max(full, key=lambda account: account.live, default=None)


def nearest(accounts: list[Account], time: float) -> Account | None:
    """The one that was looked at nearest to a time in seconds; the one right after it, if any, for a mark asks for a look."""
    asked = next((account for account in accounts if 0 <= account.time - time <= _SOON), None)
    return asked or min(accounts, key=lambda account: abs(account.time - time), default=None)


def beside(account: Account) -> str:
    """What else is to be said of the whole; "" if nothing is."""
    said = ((account.shared, "are shared with other processes"), (account.swapped, "lie in swap beside it"),
            (account.rest[Resident.LAZY], "are given back, and the kernel may take them (MADV_FREE)"))
    return ", ".join(f"{format_bytes(amount)} {what}" for amount, what in said if amount)


def when_fullest(trace: Trace, account: Account) -> str:
    """When that was, for a heading; and how much more there was at another time, at which nobody looked closely."""
    most, when = trace.totals[:, 5].max(initial=0), f"after {format_duration(account.time)}"
    if account.resident < 0.95 * most:
        return f"{when} (it was {format_bytes(most)} at most)"
    return f"at its fullest, {when}"

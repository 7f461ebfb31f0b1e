# SPDX-License-Identifier: Apache-2.0
"""Fewer operations that still find the same.

Idea: delta debugging (Zeller and Hildebrandt, TSE 2002): leave out halves, then quarters, and so on, for as long as that
finds the same kind of thing. Then sizes become simpler, and threads fewer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from ...model.fuzz import ALIGNED, LEAST_ALIGNMENT, Operation

Operations = tuple[Operation, ...]


def shortened(operations: Operations, finds: Callable[[Operations], bool], seconds: float) -> Operations:
    """The fewest that `finds` still holds for, after so many seconds at most. O(n log n) calls at best, O(n²) at worst."""
    end = time.monotonic() + seconds
    chunk = len(operations) // 2
    while chunk > 0 and time.monotonic() < end:
        at, shorter = 0, False
        while at < len(operations) and time.monotonic() < end:
            rest = operations[:at] + operations[at + chunk :]
            if rest and finds(rest):
                operations, shorter = rest, True
            else:
                at += chunk
        if not shorter or chunk > 1:
            chunk = min(chunk // 2, len(operations) // 2) if chunk > 1 else 0
    for simpler in _simpler(operations):
        if time.monotonic() >= end:
            break
        candidate = simpler(operations)
        if candidate != operations and finds(candidate):
            operations = candidate
    return operations


def _simpler(operations: Operations) -> Iterator[Callable[[Operations], Operations]]:
    yield lambda ops: tuple(replace(op, thread=0) for op in ops)
    for index in range(len(operations)):
        for change in ({"other": 0}, {"size": 1}, {"call": "malloc", "other": 0}, {"call": "release", "other": 0}):
            yield lambda ops, index=index, change=change: (  # type: ignore[misc]
                (*ops[:index], _legal(replace(ops[index], **change)), *ops[index + 1 :]) if index < len(ops) else ops)


def _legal(operation: Operation) -> Operation:
    """An alignment of 0 would be refused by every library, and found to be a fault."""
    return replace(operation, other=max(operation.other, LEAST_ALIGNMENT)) if operation.call in ALIGNED else operation

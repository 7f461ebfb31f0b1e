# SPDX-License-Identifier: Apache-2.0
"""What a program mapped, seen as what it allocated is: a trace whose blocks are mappings, for formats that know one kind only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..model.errors import UsageError
from .account import nearest

if TYPE_CHECKING:
    from .account import Account
    from .trace import Snapshot, Trace


def mappings_as_blocks(trace: Trace) -> Trace:
    """The same run; what a call chain owns is what of its mappings was resident, as of each look. O(looks x chains x depth).

    The peak is the look at which most was, the end the last look; a mark is the look nearest to it. UsageError: there was none.
    """
    import numpy as np

    accounts = trace.accounts
    if not accounts:
        raise UsageError("nobody could look at the resident memory of this process",
                         remedy="It has to run for 50 ms at least. Leave --mapped away for what it allocated.")
    parents = trace.parent.tolist()
    held: dict[int, int] = {}
    changes: list[tuple[float, int, int]] = []
    for account in accounts:
        now = _at_and_below(account, parents)
        changed = [node for node in held.keys() | now.keys() if held.get(node, 0) != now.get(node, 0)]
        changes += [(account.time, node, now.get(node, 0)) for node in sorted(changed)]
        held = now
    time, node, value = (np.array([row[column] for row in changes]) for column in range(3))
    totals = np.array([[a.time, *[a.mapped_resident.sum()] * 3, a.pieces.sum(), a.resident, 0, 0] for a in accounts], float)
    largest = max(accounts, key=lambda account: int(account.mapped_resident.sum()))
    snapshots = [_as(largest, "peak"), _as(accounts[-1], "end")]
    for mark in trace.snapshots:
        if mark.kind == "mark" and (looked := nearest(accounts, mark.time)) is not None:
            snapshots.append(replace(_as(looked, "mark"), name=mark.name))
    return replace(trace, owned="mapped", time=time.astype(float), node=node.astype(np.int64), value=value.astype(np.int64),
                   low=value.astype(np.int64), high=value.astype(np.int64), totals=totals, snapshots=snapshots,
                   chains=trace.chains[:0])


def _at_and_below(account: Account, parents: list[int]) -> dict[int, int]:
    """By node of the call tree, the root too: resident bytes of mappings."""
    found: dict[int, int] = {}
    for node, size in zip(account.nodes.tolist(), account.mapped_resident.tolist(), strict=True):
        if size == 0:
            continue
        at = node
        while True:
            found[at] = found.get(at, 0) + size
            if at == 0:
                break
            at = parents[at]
    return found


def _as(account: Account, kind: str) -> Snapshot:
    return replace(account.of_mappings(), kind=kind)

# SPDX-License-Identifier: Apache-2.0
"""Tables cut by machine: which blocks lie where, and the differences and means that the tests look at."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..scale import logs_of
from ..tables import Table
from .group_means import Array, Groups

LEAST = 2  # blocks of a workload on a kind of machine: one bounds nothing


def on_machines(table: Table, nodes: Collection[str]) -> Table | None:
    """The blocks of a table that ran on these machines; None without any. What looks released is not followed. O(blocks)."""
    here = [node in nodes for node in table.nodes]
    if not any(here):
        return None
    return replace(table, values=table.values[here], longer=(), nodes=tuple(n for n in table.nodes if n in nodes))


def grouped(table: Table, group_of: Mapping[str, int]) -> tuple[Array, Groups]:
    """Logs of the blocks on the machines that `group_of` knows, and the group of each. O(blocks x labels)."""
    here = [node in group_of for node in table.nodes]
    groups = np.array([group_of[node] for node in table.nodes if node in group_of], dtype=np.intp)
    return logs_of(table)[here], groups


def shared_workloads(
    tables: Iterable[Table], kinds: Sequence[Sequence[str]], workloads: Sequence[str], *, least: int = LEAST
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """(workloads, places in `kinds`) such that each of these kinds has `least` blocks of each of these workloads.

    Kinds that have them on less than half of the workloads are left out; then, until something is common to the rest, the one
    that has fewest. `tables`: of all metrics that are asked. O(blocks + kinds^2 x workloads).
    """
    counts: dict[str, list[Counter[str]]] = defaultdict(list)
    for table in tables:
        counts[table.workload].append(Counter(table.nodes))

    def enough(workload: str, nodes: Sequence[str]) -> bool:
        return all(sum(of[node] for node in nodes) >= least for of in counts[workload])

    measured = [{w for w in workloads if enough(w, nodes)} for nodes in kinds]
    kept = [i for i, seen in enumerate(measured) if seen and 2 * len(seen) >= len(workloads)]
    while kept:
        common = tuple(w for w in workloads if all(w in measured[i] for i in kept))
        if common:
            return common, tuple(kept)
        kept.remove(min(reversed(kept), key=lambda i: len(measured[i])))
    return (), ()


def crossed(tables: Sequence[Table], nodes: Sequence[str]) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    """Tables and machines such that each machine has a block of each workload, as `shared_workloads` chooses them."""
    workloads, kept = shared_workloads(tables, [(node,) for node in nodes], [t.workload for t in tables], least=1)
    return tuple(t for t in tables if t.workload in workloads), tuple(nodes[i] for i in kept)

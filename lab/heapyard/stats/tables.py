# SPDX-License-Identifier: Apache-2.0
"""From rows to tables: for each workload and metric the complete blocks of the treatments that counted."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..model.errors import UsageError
from ..model.metrics import display_order
from ..model.observations import Observations


@dataclass(frozen=True, slots=True)
class Table:
    """Raw values, blocks x labels; `labels` in display order, the control (if it counted) last.

    `longer`: where a look released some labels, the tables of those that went on, each with more blocks and fewer labels
    than the one before; their blocks include this table's. `nodes`: the machine of each block; empty without a fleet.
    """

    workload: str
    metric: str
    labels: tuple[str, ...]
    values: NDArray[np.float64]
    longer: tuple[Table, ...] = ()
    nodes: tuple[str, ...] = ()

    def longest(self, label: str) -> Table:
        """All blocks that can speak of `label`, with those that took part in all of them."""
        return next((table for table in reversed(self.longer) if label in table.labels), self)


def excluded(observations: Observations) -> dict[str, frozenset[str]]:
    """Per workload the labels with a failed trial: after a crash, even one in ten, it was not measured there."""
    found: dict[str, set[str]] = defaultdict(set)
    for failure in observations.failures:
        if failure.failed > 0:
            found[failure.workload].add(failure.treatment)
    return {workload: frozenset(labels) for workload, labels in found.items()}


def metric_order(observations: Observations) -> tuple[str, ...]:
    """Metrics that occur, in display order."""
    return display_order({row.metric for row in observations.rows})


def tables(observations: Observations) -> list[Table]:
    """One table per workload and metric that has the baseline and at least one complete block, in display order.

    A label belongs to the table unless it failed on the workload or has the metric in less than half of the blocks in
    which the baseline has it (with looks: of those in which it took part too). Then only blocks that are complete for
    the table's labels are kept. Values that are negative or not finite count as missing. UsageError for a search for
    capacities, whose trials ran at different rates (stats/capacity.py). O(rows).
    """
    if observations.settings.limits:
        raise UsageError("this experiment searched for capacities, and its trials ran at different rates",
                         remedy="heapyard show, report and export read it; it can be compared in no other way.")
    left_out = excluded(observations)
    control = observations.control
    labels = (*(t for t in observations.treatments if t != control), *((control,) if control else ()))
    found: dict[tuple[str, str], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    there: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    node_of = {row.block: row.node for row in observations.rows} if observations.on_a_fleet else {}
    for row in observations.rows:
        there[row.workload][row.treatment].add(row.block)
        if 0 <= row.value < float("inf"):  # false for NaN too
            found[row.workload, row.metric][row.treatment][row.block] = row.value
    metrics, made = metric_order(observations), []
    for workload in observations.workloads:
        out = left_out.get(workload, frozenset())
        if observations.baseline in out:
            continue
        for metric in metrics:
            values = found.get((workload, metric), {})
            took_part = there[workload] if observations.settings.looks else None
            table = _table(workload, metric, labels, out, values, observations.baseline, took_part, node_of)
            if table is not None:
                made.append(table)
    return made


def _table(
    workload: str,
    metric: str,
    labels: tuple[str, ...],
    out: frozenset[str],
    values: dict[str, dict[int, float]],
    baseline: str,
    took_part: dict[str, set[int]] | None,
    node_of: dict[int, str],
) -> Table | None:
    reference = values.get(baseline, {}).keys()
    present = {t: len(values.get(t, {}).keys() & reference) for t in labels if t not in out}
    asked = {t: len(reference & took_part[t]) if took_part else len(reference) for t in present}
    kept = tuple(t for t, count in present.items() if count and 2 * count >= asked[t])
    if not kept:
        return None
    # Labels that took part in as many blocks were released together; each number of blocks is a table of its own.
    made: list[Table] = []
    for least in sorted({asked[t] for t in kept}):
        going = tuple(t for t in kept if asked[t] >= least)
        blocks = sorted(set.intersection(*(set(values[t]) for t in going)))
        if blocks and len(blocks) > (len(made[-1].values) if made else 0):
            numbers = np.array([[values[t][b] for t in going] for b in blocks], dtype=float)
            nodes = tuple(node_of[b] for b in blocks) if node_of else ()
            made.append(Table(workload, metric, going, numbers, nodes=nodes))
        elif not made:
            return None
    return replace(made[0], longer=tuple(made[1:]))

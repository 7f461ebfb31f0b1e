"""From rows to tables: for each workload and metric the complete blocks of the treatments that counted."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.metrics import display_order
from ..model.observations import Observations


@dataclass(frozen=True, slots=True)
class Table:
    """Raw values, blocks x labels; `labels` in display order, the control (if it counted) last."""

    workload: str
    metric: str
    labels: tuple[str, ...]
    values: NDArray[np.float64]


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
    which the baseline has it. Then only blocks that are complete for the table's labels are kept. Values that are
    negative or not finite count as missing. O(rows).
    """
    left_out = excluded(observations)
    control = observations.control
    labels = (*(t for t in observations.treatments if t != control), *((control,) if control else ()))
    found: dict[tuple[str, str], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in observations.rows:
        if 0 <= row.value < float("inf"):  # false for NaN too
            found[row.workload, row.metric][row.treatment][row.block] = row.value
    metrics, made = metric_order(observations), []
    for workload in observations.workloads:
        out = left_out.get(workload, frozenset())
        if observations.baseline in out:
            continue
        for metric in metrics:
            values = found.get((workload, metric), {})
            table = _table(workload, metric, labels, out, values, observations.baseline)
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
) -> Table | None:
    reference = values.get(baseline, {}).keys()
    present = {t: len(values.get(t, {}).keys() & reference) for t in labels if t not in out}
    kept = tuple(t for t, count in present.items() if count and 2 * count >= len(reference))
    if not kept:
        return None
    blocks = sorted(set.intersection(*(set(values[t]) for t in kept)))
    if not blocks:
        return None
    return Table(workload, metric, kept, np.array([[values[t][b] for t in kept] for b in blocks], dtype=float))

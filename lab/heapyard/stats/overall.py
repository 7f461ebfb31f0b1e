"""One metric over all workloads: these play the part of blocks, being what a statement about "programs" samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..model.analysis import Cell, Overall
from ..model.experiment import Settings
from ..model.metrics import metric_named
from .cells import compared, losers, standing
from .contrasts import Contrasts
from .scale import scale_for, sign_of
from .tables import Table


def common_set(
    tables: Sequence[Table], treatments: Sequence[str], baseline: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(workloads, treatments) of a complete table of means for one metric.

    Treatments that counted on less than half of the workloads are left out, then the workloads on which one of the
    rest did not count. If nothing is common to the rest, the treatment that counted least often goes (of equals the
    last) until something is.
    """
    measured = {t: {table.workload for table in tables if t in table.labels} for t in treatments}
    kept = [t for t in treatments if t == baseline or 2 * len(measured[t]) >= max(len(tables), 1)]
    while True:
        common = tuple(table.workload for table in tables if all(table.workload in measured[t] for t in kept))
        rest = [t for t in kept if t != baseline]
        if common or not rest:
            return common, tuple(kept)
        kept.remove(min(reversed(rest), key=lambda t: len(measured[t])))


def overall_of(
    metric: str,
    tables: Sequence[Table],
    cells: Sequence[Cell],
    workloads: Sequence[str],
    treatments: Sequence[str],
    *,
    baseline: str,
    settings: Settings,
) -> Overall | None:
    """Geometric mean ratios over `workloads`, each workload counting once whatever its number of blocks.

    The table of mean logs, workloads x treatments, is analysed like a table of blocks: its residuals are how much a
    treatment's effect varies from program to program, so the interval speaks of other programs of this kind, not of
    these alone. With a single workload it is that workload's own comparison. None without workloads.
    """
    if not workloads:
        return None
    direction = sign_of(metric_named(metric).direction)
    chosen = {table.workload: table for table in tables}
    if len(workloads) == 1:
        return _single(metric, next(c for c in cells if c.workload == workloads[0] and c.metric == metric), direction)
    rows = []
    for workload in workloads:
        table = chosen[workload]
        y = scale_for(metric_named(metric), table.values).forward(table.values).mean(axis=0)
        rows.append([y[table.labels.index(t)] for t in treatments])
    contrasts = Contrasts(np.array(rows), range(len(treatments)), confidence=settings.confidence)
    base = treatments.index(baseline)
    others = [i for i in range(len(treatments)) if i != base]
    found = tuple(
        compared(
            contrast,
            treatments[i],
            workload="",
            metric_name=metric,
            blocks=len(workloads),
            settings=settings,
            family=len(others),
            advise=False,
        )
        for i, contrast in zip(others, contrasts.against(base, others), strict=True)
    )
    order, _, best = standing(contrasts, direction)
    worse = losers(found, metric_named(metric).direction)
    among_best = tuple(treatments[i] for i in order if best[i] and treatments[i] not in worse)
    return Overall(metric, tuple(workloads), found, among_best, treatments[order[0]])


def _single(metric: str, cell: Cell, direction: int) -> Overall:
    ordered = sorted(cell.summaries, key=lambda s: -s.mean if direction > 0 else s.mean)
    return Overall(
        metric,
        (cell.workload,),
        tuple(replace(c, workload="", blocks=1) for c in cell.comparisons),
        tuple(s.treatment for s in ordered if s.among_best),
        ordered[0].treatment,
    )

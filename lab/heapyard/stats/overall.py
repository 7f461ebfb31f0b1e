# SPDX-License-Identifier: Apache-2.0
"""One metric over all workloads: these programs, or these levels, which are fixed; and what another program may show."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.analysis import Comparison, Duel, NextProgram, Overall
from ..model.experiment import Settings
from ..model.metrics import metric_named
from .cells import compared, losers, standing
from .contrasts import Contrast, Contrasts
from .fixed_programs import FixedPrograms
from .next_program import next_program
from .scale import logs_of, margin_of, sign_of
from .tables import Table
from .verdict import verdict


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


def fixed_programs(
    tables: Sequence[Table], workloads: Sequence[str], treatments: Sequence[str], *, confidence: float, control: str = ""
) -> FixedPrograms:
    """The tables of the `workloads` together; column i is treatments[i], the last one the control if every table has it.

    Every label of a table, others than these too, takes part in the estimate of its noise.
    """
    chosen = {table.workload: table for table in tables}
    used = [chosen[w] for w in workloads]
    wanted = (*treatments, control) if control and all(control in t.labels for t in used) else tuple(treatments)
    parts = [
        Contrasts(logs_of(t), [i for i, label in enumerate(t.labels) if label != control], confidence=confidence)
        for t in used
    ]
    return FixedPrograms(parts, [[t.labels.index(w) for w in wanted] for t in used], confidence=confidence)


def overall_of(
    metric: str,
    tables: Sequence[Table],
    workloads: Sequence[str],
    treatments: Sequence[str],
    *,
    baseline: str,
    settings: Settings,
    control: str = "",
    checks: int = 1,
    a_kind: bool = False,
) -> Overall | None:
    """Geometric mean ratios over `workloads`, each workload counting once whatever its number of blocks.

    The workloads are fixed: the intervals hold for their mean, and only the noise of trials widens them. `a_kind`: they are
    programs of a kind, of which there may be a next one, and no levels of factors. `checks`: A/A checks in the experiment.
    None without workloads.
    """
    if not workloads:
        return None
    described = metric_named(metric)
    direction = sign_of(described.direction)
    fixed = fixed_programs(tables, workloads, treatments, confidence=settings.confidence, control=control)
    base = treatments.index(baseline)
    others = [i for i in range(len(treatments)) if i != base]

    def over(index: int, contrast: Contrast, family: int) -> Comparison:
        label = treatments[index] if index < len(treatments) else control
        return compared(
            contrast, label, workload="", metric_name=metric, blocks=fixed.rounds, settings=settings, family=family
        )

    found = tuple(over(i, c, len(others)) for i, c in zip(others, fixed.against(base, others), strict=True))
    with_control = len(fixed.columns) > len(treatments)
    check = None
    if with_control:
        last = len(treatments)
        check = over(last, fixed.against(base, [last], family=max(checks, 1))[0], max(checks, 1))
    order, _, best = standing(fixed.without(len(treatments)) if with_control else fixed, direction)
    worse = losers(found, described.direction)
    shares = fixed.shares(base, others).tolist() if others else []
    most = int(max(range(len(shares)), key=lambda i: shares[i])) if len(shares) else 0
    return Overall(
        metric,
        tuple(workloads),
        found,
        tuple(treatments[i] for i in order if best[i] and treatments[i] not in worse),
        treatments[order[0]],
        check,
        _duels(fixed, treatments, others, metric, settings),
        _next(fixed, treatments, base, others, metric, settings) if a_kind and direction else (),
        workloads[most],
        float(shares[most]) if len(shares) else 0.0,
    )


def _duels(
    fixed: FixedPrograms, treatments: Sequence[str], others: Sequence[int], metric: str, settings: Settings
) -> tuple[Duel, ...]:
    """All pairs without the baseline, corrected for their number together (Bonferroni). O(P k^2)."""
    family = max(1, len(others) * (len(others) - 1) // 2)
    described = metric_named(metric)
    margin = margin_of(described, settings)
    return tuple(
        Duel(
            treatments[i],
            treatments[rival],
            c.simultaneous,
            verdict(c.pair, c.simultaneous, c.tost, margin=margin, direction=described.direction),
        )
        for at, rival in enumerate(others)
        for i, c in zip(others[at + 1 :], fixed.against(rival, others[at + 1 :], family=family), strict=True)
    )


def _next(
    fixed: FixedPrograms, treatments: Sequence[str], base: int, others: Sequence[int], metric: str, settings: Settings
) -> tuple[NextProgram, ...]:
    described = metric_named(metric)
    effects = fixed.effects(base, others).tolist() if others else []
    made = (
        next_program(
            treatments[i],
            [float(row[at]) for row in effects],
            margin=margin_of(described, settings),
            direction=sign_of(described.direction),
            confidence=settings.confidence,
        )
        for at, i in enumerate(others)
    )
    return tuple(n for n in made if n is not None)

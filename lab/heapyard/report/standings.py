# SPDX-License-Identifier: Apache-2.0
"""Who stands where: the rows of the overall table, the same for every form of the answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..model.analysis import Analysis, Comparison, Verdict


@dataclass(frozen=True, slots=True)
class Place:
    """One treatment in one metric over all programs, and how it did on single ones."""

    comparison: Comparison | None  # None for the baseline, and where it counted on too few programs
    best: bool  # not distinguishable from the best
    verdicts: Counter[Verdict]  # over the single programs

    def tally(self) -> str:
        """`3 better, 1 worse of 8`, "" where no single program was compared."""
        total = self.verdicts.total()
        return f"{self.verdicts['better']} better, {self.verdicts['worse']} worse of {total}" if total else ""


@dataclass(frozen=True, slots=True)
class Standing:
    """One row of the overall table; `places` by metric."""

    treatment: str
    is_baseline: bool
    places: dict[str, Place]
    on_front: bool  # nothing is at least as good in both time and memory and better in one
    failed_on: tuple[str, ...]  # programs


def standings(analysis: Analysis) -> list[Standing]:
    """Least time first, those without an overall mean last. O(cells + treatments x failures)."""
    front = {p.treatment for p in analysis.pareto if p.on_front}
    rows = [
        Standing(
            treatment,
            treatment == analysis.baseline,
            {metric: _place(analysis, treatment, metric) for metric in analysis.metrics},
            treatment in front,
            tuple(dict.fromkeys(f.workload for f in analysis.failures if f.treatment == treatment and f.failed)),
        )
        for treatment in analysis.treatments
    ]
    lead = analysis.time if analysis.time in analysis.metrics else next(iter(analysis.metrics), "")
    return sorted(rows, key=lambda row: _rank(row, lead))


def shown_metrics(analysis: Analysis) -> tuple[str, ...]:
    """What the answer leads with: time and memory, or the first metric there is when neither was measured."""
    return tuple(m for m in analysis.primary if m in analysis.metrics) or analysis.metrics[:1]


def _place(analysis: Analysis, treatment: str, metric: str) -> Place:
    overall = analysis.over_all(metric)
    cells = [c for c in analysis.cells if c.metric == metric]
    return Place(
        next((c for c in overall.comparisons if c.treatment == treatment), None) if overall else None,
        overall is not None and treatment in overall.among_best,
        Counter(c.verdict for cell in cells for c in cell.comparisons if c.treatment == treatment),
    )


def _rank(row: Standing, lead: str) -> tuple[bool, float]:
    if row.is_baseline:
        return False, 1.0
    place = row.places.get(lead)
    if place is None or place.comparison is None:
        return True, 0.0
    ratio = place.comparison.interval.ratio
    return ratio != ratio, ratio

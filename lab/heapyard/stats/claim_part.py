"""What a claim speaks of in an experiment: treatments, rivals, workloads, and their logs round by round."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.analysis import Interval
from ..model.claim import Claim, ClaimVerdict
from ..model.metrics import metric_named
from ..model.observations import Observations
from .scale import scale_for, sign_of
from .tables import Table, tables


@dataclass(frozen=True, slots=True)
class Part:
    """One test of a claim. `weight`: how clear it is, for choosing what to show; larger is clearer."""

    verdict: ClaimVerdict
    evidence: str
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class Selected:
    """The claim's share of the experiment. `problem`: why nothing can be tested, "" otherwise.

    `tables`: of the selected workloads in their order. `by_level`: level of the claim's factor -> treatment ->
    round -> mean log over the workloads at that level; empty for claims without a factor.
    """

    problem: str = ""
    treatments: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    by_level: dict[str, dict[str, dict[int, float]]] | None = None
    direction: int = -1  # -1 where less is better, +1 where more is
    baseline: str = ""
    confidence: float = 0.95

    def levels(self, treatment: str) -> tuple[list[str], NDArray[np.float64]]:
        """Levels at which the treatment was measured, and logs, common rounds x levels."""
        of = {level: rounds[treatment] for level, rounds in (self.by_level or {}).items() if treatment in rounds}
        common = sorted(set.intersection(*(set(rounds) for rounds in of.values()))) if of else []
        return list(of), np.array([[of[level][r] for level in of] for r in common], dtype=float).reshape(-1, len(of))


def select(claim: Claim, observations: Observations) -> Selected:
    """What the claim speaks of, or why it cannot be tested. O(rows)."""
    workloads = [
        w
        for w in observations.workloads
        if all(observations.levels.get(w, {}).get(name) in levels for name, levels in claim.at.items())
    ]
    if not workloads:
        wanted = ", ".join(f"{name} {' or '.join(levels)}" for name, levels in claim.at.items())
        return Selected(f"nothing was run at {wanted}")
    made = tuple(t for t in tables(observations) if t.metric == claim.metric and t.workload in workloads)
    if not made:
        return Selected(f"{metric_named(claim.metric).title} was not measured there")
    everyone = [t for t in observations.treatments if t != observations.control]
    there = {label for table in made for label in table.labels}
    rivals = claim.than or ((observations.baseline,) if claim.kind in ("faster_than", "within") else ())
    wanted = claim.treatments or tuple(t for t in everyone if t not in rivals)
    absent = tuple(name for name in dict.fromkeys((*wanted, *rivals)) if name not in there)
    treatments = tuple(t for t in wanted if t in there)
    rivals_there = tuple(r for r in rivals if r in there)
    if not treatments or (rivals and not rivals_there):
        return Selected(f"{', '.join(absent) or 'no other treatment'} not measured here")
    by_level = _by_level(claim, observations, made) if claim.over else None
    if claim.over and len(by_level or {}) < 2:
        return Selected(f"{claim.over} was run at one level only")
    return Selected(
        treatments=treatments,
        rivals=rivals_there,
        absent=absent,
        tables=made,
        by_level=by_level,
        direction=sign_of(metric_named(claim.metric).direction) or -1,
        baseline=observations.baseline,
        confidence=observations.settings.confidence,
    )


def _by_level(
    claim: Claim, observations: Observations, made: tuple[Table, ...]
) -> dict[str, dict[str, dict[int, float]]]:
    labels = {t.workload: set(t.labels) for t in made}
    rows = [
        r
        for r in observations.rows
        if r.metric == claim.metric and r.treatment in labels.get(r.workload, ()) and 0 <= r.value < float("inf")
    ]
    scale = scale_for(metric_named(claim.metric), np.array([r.value for r in rows]))
    sums: dict[str, dict[str, dict[int, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    logs = scale.forward(np.array([r.value for r in rows]))
    for row, logged in zip(rows, logs.tolist(), strict=True):
        level = observations.levels.get(row.workload, {}).get(claim.over)
        if level is not None:
            sums[level][row.treatment][row.round].append(logged)
    order = dict.fromkeys(
        observations.levels[w][claim.over]
        for w in observations.workloads
        if w in labels and claim.over in observations.levels.get(w, {})
    )
    return {
        level: {t: {r: sum(v) / len(v) for r, v in rounds.items()} for t, rounds in sums[level].items()}
        for level in order
    }


def shown(interval: Interval) -> str:
    """`0.81 (0.78 to 0.84)`."""
    if interval.low <= 0 or interval.high == float("inf"):
        return f"{interval.ratio:.3g} (not bounded)"
    return f"{interval.ratio:.3g} ({interval.low:.3g} to {interval.high:.3g})"

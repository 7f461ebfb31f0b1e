# SPDX-License-Identifier: Apache-2.0
"""What a claim speaks of in an experiment: treatments, rivals, workloads, and their logs round by round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...model.analysis import Interval
from ...model.claim import Claim, ClaimVerdict
from ...model.figure import is_number
from ...model.metrics import metric_named
from ...model.observations import Observations
from ..scale import margin_of, scale_for, sign_of
from ..tables import Table

Logs = dict[str, dict[str, dict[int, float]]]  # workload -> treatment -> round -> log response


@dataclass(frozen=True, slots=True)
class Part:
    """One test of a claim. `weight`: how clear it is, for choosing what to show; larger is clearer."""

    verdict: ClaimVerdict
    evidence: str
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class Selected:
    """The claim's share of the experiment. `problem`: why nothing can be tested, "" otherwise.

    `treatments` were measured somewhere, `absent` names the others with the reason. `gaps`: what else the claim speaks
    of that was not measured; it then cannot be shown to hold, but it can be refuted. `tables`: of the selected
    workloads in their order. `at_level`: level of the claim's factor `over` -> its workloads; empty without a factor.
    """

    problem: str = ""
    treatments: tuple[str, ...] = ()
    absent: dict[str, str] = field(default_factory=dict)
    rivals: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    over: str = ""
    at_level: dict[str, tuple[str, ...]] = field(default_factory=dict)
    logs: Logs = field(default_factory=dict)
    direction: int = -1  # -1 where less is better, +1 where more is
    control: str = ""
    confidence: float = 0.95
    margin: float = 0.0  # of equivalence in the claim's metric, as ratio minus one

    def levels(self, treatment: str) -> tuple[list[str], NDArray[np.float64], list[Part]]:
        """Levels at which the treatment counted on every workload; logs, common rounds x levels; the levels left out.

        A level with several workloads has the mean of their logs in each round.
        """
        found: dict[str, dict[int, float]] = {}
        for level, workloads in self.at_level.items():
            those = [self.logs.get(w, {}).get(treatment, {}) for w in workloads]
            rounds = set.intersection(*(set(one) for one in those))
            if rounds:
                found[level] = {r: sum(one[r] for one in those) / len(those) for r in rounds}
        missing = (x for x in self.at_level if x not in found)
        left_out = [Part("cannot tell", f"was not measured at {self.over}={x}", np.inf) for x in missing]
        common = sorted(set.intersection(*(set(of) for of in found.values()))) if found else []
        y = np.array([[of[r] for of in found.values()] for r in common], dtype=float).reshape(-1, len(found))
        return list(found), y, left_out


def select(claim: Claim, observations: Observations, tables: Sequence[Table]) -> Selected:
    """What the claim speaks of, or why it cannot be tested. `tables`: all of the experiment. O(rows)."""
    levels = observations.levels
    workloads = [
        w
        for w in observations.workloads
        if all(levels.get(w, {}).get(name) in wanted for name, wanted in claim.at.items())
    ]
    if not workloads:
        where = ", ".join(f"{name} {' or '.join(wanted)}" for name, wanted in claim.at.items())
        return Selected(f"nothing was run at {where}" if where else "nothing was run")
    made = tuple(t for t in tables if t.metric == claim.metric and t.workload in workloads)
    if not made:
        return Selected(f"{metric_named(claim.metric).title} was not measured there")
    rivals = claim.than or ((observations.baseline,) if claim.kind in ("faster_than", "within") else ())
    everyone = (t for t in observations.treatments if t not in (observations.control, *rivals))
    wanted = claim.treatments or tuple(everyone)
    there = {label for table in made for label in table.labels}
    absent = {t: _why(t, workloads, observations) for t in (*wanted, *rivals) if t not in there}
    treatments = tuple(t for t in wanted if t in there)
    rivals_there = tuple(r for r in rivals if r in there)
    if not treatments or (rivals and not rivals_there):
        return Selected(", ".join(absent.values()) or "there is no other treatment")
    at_level = _at_level(claim, observations, workloads) if claim.over else {}
    if claim.over and len(at_level) < 2:
        return Selected(f"{claim.over} was run at one level only" if at_level else f"{claim.over} is not a factor here")
    metric = metric_named(claim.metric)
    return Selected(
        treatments=treatments,
        absent={t: absent[t] for t in wanted if t in absent},
        rivals=rivals_there,
        gaps=(*(absent[r] for r in rivals if r in absent), *_not_run(claim, observations, workloads, made)),
        tables=made,
        over=claim.over,
        at_level=at_level,
        logs=_logs(claim, observations, made) if claim.over else {},
        direction=sign_of(metric.direction) or -1,
        control=observations.control,
        confidence=observations.settings.confidence,
        margin=margin_of(metric, observations.settings),
    )


def _why(treatment: str, workloads: Sequence[str], observations: Observations) -> str:
    failed = (f for f in observations.failures if f.treatment == treatment and f.workload in workloads and f.failed)
    failure = next(failed, None)
    return f"{treatment} failed ({failure.kind})" if failure else f"{treatment} was not measured"


def _not_run(
    claim: Claim, observations: Observations, workloads: Sequence[str], made: Sequence[Table]
) -> tuple[str, ...]:
    """Levels the claim names that were not run and, unless it compares levels (which sees to that), workloads without
    one complete block."""
    run = {(name, level) for w in workloads for name, level in observations.levels.get(w, {}).items()}
    absent = [f"{name} {x} was not run" for name, wanted in claim.at.items() for x in wanted if (name, x) not in run]
    having = {t.workload for t in made}
    empty = [] if claim.over else [f"no block is complete at {place(w)}" for w in workloads if w not in having]
    return (*absent, *empty)


def _at_level(claim: Claim, observations: Observations, workloads: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The workloads at each level of the claim's factor; numbers in ascending order, names in that of the study."""
    found: dict[str, list[str]] = defaultdict(list)
    for workload in workloads:
        level = observations.levels.get(workload, {}).get(claim.over)
        if level is not None:
            found[level].append(workload)
    order = sorted(found, key=float) if all(is_number(level) for level in found) else list(found)
    return {level: tuple(found[level]) for level in order}


def _logs(claim: Claim, observations: Observations, made: Sequence[Table]) -> Logs:
    labels = {t.workload: set(t.labels) for t in made}
    rows = [
        r
        for r in observations.rows
        if r.metric == claim.metric and r.treatment in labels.get(r.workload, ()) and 0 <= r.value < float("inf")
    ]
    values = np.array([r.value for r in rows])
    found: Logs = defaultdict(lambda: defaultdict(dict))
    for row, logged in zip(rows, scale_for(metric_named(claim.metric), values).forward(values).tolist(), strict=True):
        found[row.workload][row.treatment][row.round] = logged
    return found


def place(workload: str) -> str:
    """Where, without the mutator's name: `threads=2`."""
    return workload.partition(" ")[2] or workload


def shown(interval: Interval) -> str:
    """`0.81 (0.78 to 0.84)`."""
    if interval.low <= 0 or interval.high == float("inf"):
        return f"{interval.ratio:.3g} (not bounded)"
    return f"{interval.ratio:.3g} ({interval.low:.3g} to {interval.high:.3g})"

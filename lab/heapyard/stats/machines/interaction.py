# SPDX-License-Identifier: Apache-2.0
"""Does the ratio of an allocator to the baseline depend on the machine? Within a block the machine's own speed cancels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...model.analysis import Interval
from ...model.machines import MachineInteraction
from ..contrasts import exp_capped
from ..tables import Table
from .group_means import FTest, GroupMeans, all_alike, f_test, farthest, group_means
from .parts import grouped


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked in a metric: of `treatments` against `baseline`, over `tables` (one per workload), by group of machines."""

    metric: str
    tables: tuple[Table, ...]
    treatments: tuple[str, ...]  # without the baseline
    baseline: str
    names: tuple[str, ...]  # of the groups
    group_of: Mapping[str, int]  # of a machine
    margin: float  # as ratio minus one
    confidence: float


def differences(asked: Question, treatment: str) -> GroupMeans:
    """Means of differences of logs within blocks, by group. O(blocks)."""
    values, groups = [], []
    for table in asked.tables:
        y, group = grouped(table, asked.group_of)
        values.append(y[:, table.labels.index(treatment)] - y[:, table.labels.index(asked.baseline)])
        groups.append(group)
    return group_means(values, groups, len(asked.names))


def holm_adjusted(p: Sequence[float], family: int | None = None) -> list[float]:
    """Holm's adjusted p-values, of at least `family` hypotheses. O(n log n)."""
    count, largest = max(len(p), family or 0), 0.0
    adjusted = [1.0] * len(p)
    for rank, i in enumerate(np.argsort(p, kind="stable")):
        largest = max(largest, min(1.0, (count - rank) * p[i]))
        adjusted[i] = largest
    return adjusted


def interactions(asked: Question) -> list[MachineInteraction]:
    """One per treatment over all workloads, by Holm over the treatments; with several workloads one per workload and treatment
    too, by Holm over all of these. O(blocks x treatments)."""
    if len(asked.names) < 2:
        return []
    found = _judged(asked, [(asked, "")])
    if len(asked.tables) > 1:
        single = [(_of_one(asked, table), table.workload) for table in asked.tables]
        found += _judged(asked, single)
    return found


def _of_one(asked: Question, table: Table) -> Question:
    return Question(
        asked.metric, (table,), asked.treatments, asked.baseline, asked.names, asked.group_of, asked.margin, asked.confidence
    )


def _judged(asked: Question, parts: Sequence[tuple[Question, str]]) -> list[MachineInteraction]:
    tried: list[tuple[str, str, GroupMeans, FTest]] = []
    for part, workload in parts:
        for treatment in asked.treatments:
            means = differences(part, treatment)
            tried.append((workload, treatment, means, f_test(means)))
    adjusted = holm_adjusted([test.p for *_, test in tried])
    return [
        _interaction(asked, workload, treatment, means, test, p, len(tried))
        for (workload, treatment, means, test), p in zip(tried, adjusted, strict=True)
    ]


def _interaction(
    asked: Question, workload: str, treatment: str, means: GroupMeans, test: FTest, p: float, family: int
) -> MachineInteraction:
    apart = farthest(means, confidence=asked.confidence, family=family)
    margin = math.log1p(asked.margin)
    if p < 1 - asked.confidence and apart.difference > margin:
        answer = "depends"
    else:
        answer = "alike" if all_alike(means, margin=margin, confidence=asked.confidence) else "cannot tell"
    return MachineInteraction(
        asked.metric, treatment, workload, asked.names, test.f, test.df, test.error_df, p,
        tuple(exp_capped(float(m)) for m in means.mean),
        Interval(*map(exp_capped, (apart.difference, apart.low_end, apart.high_end))),
        asked.names[apart.high], asked.names[apart.low], answer, means.method,  # type: ignore[arg-type]
    )  # fmt: skip

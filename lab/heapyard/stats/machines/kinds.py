# SPDX-License-Identifier: Apache-2.0
"""Kinds of machine: those with equal facts together, without any whose ratios are shown to differ all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .group_means import f_test, farthest
from .interaction import Question, differences, holm_adjusted
from .parts import crossed

Facts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Kind:
    """Machines that are analysed as one; `split`: taken out of a kind by what was measured."""

    nodes: tuple[str, ...]
    facts: Facts
    split: bool = False


def kinds_by_facts(nodes: Sequence[str], facts: Mapping[str, Facts]) -> list[Kind]:
    """Machines of equal facts, the largest kind first, of equals the one that came first. O(nodes x facts)."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node in nodes:
        groups.setdefault(tuple(facts.get(node, {}).items()), []).append(node)
    made = [Kind(tuple(found), dict(key)) for key, found in groups.items()]
    return sorted(made, key=lambda kind: -len(kind.nodes))


def without_odd_ones(kinds: Sequence[Kind], questions: Sequence[Question]) -> list[Kind]:
    """Kinds of machines whose ratios are not shown to differ. `questions`: of the leading metrics; groups do not matter.

    Each kind of several machines is asked by F test whether the ratios depend on the machine, corrected over kinds, metrics
    and treatments (Holm). Where one does, by more than the margin, the machine farthest from the mean of the others becomes a
    kind of its own, and the rest are asked again. So equal machines stay together with the confidence of the experiment.
    O(nodes^2 x blocks x treatments).
    """
    kept, odd = list(kinds), []
    while (found := _odd_one(kept, questions)) is not None:
        place, node = found
        kind = kept[place]
        odd.append(Kind((node,), kind.facts, split=True))
        kept[place] = replace(kind, nodes=tuple(n for n in kind.nodes if n != node))
    return sorted([*kept, *odd], key=lambda kind: (kind.split, -len(kind.nodes)))


def _odd_one(kinds: Sequence[Kind], questions: Sequence[Question]) -> tuple[int, str] | None:
    """(place of a kind, machine in it), None where all agree."""
    tried = []
    for place, kind in enumerate(kinds):
        for question in questions:
            asked = by_machine(question, kind.nodes)
            if asked is None:
                continue
            for treatment in asked.treatments:
                means = differences(asked, treatment)
                tried.append((place, asked, means, f_test(means)))
    if not tried:
        return None
    adjusted = holm_adjusted([test.p for *_, test in tried])
    shown = []
    for (place, asked, means, test), p in zip(tried, adjusted, strict=True):
        apart = farthest(means, confidence=asked.confidence).difference
        if p < 1 - asked.confidence and apart > np.log1p(asked.margin):
            away = np.abs(means.mean - (means.mean.sum() - means.mean) / (len(means.mean) - 1))
            shown.append((p, -test.f, place, asked.names[int(away.argmax())]))
    return min(shown)[2:] if shown else None


def by_machine(question: Question, nodes: Sequence[str]) -> Question | None:
    """The question of the single machines, over the workloads of which each has a block; None with fewer than two machines."""
    if len(nodes) < 2:
        return None
    tables, names = crossed(question.tables, nodes)
    if len(names) < 2:
        return None
    return replace(question, tables=tables, names=names, group_of={node: i for i, node in enumerate(names)})

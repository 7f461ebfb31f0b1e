# SPDX-License-Identifier: Apache-2.0
"""From tables to what an experiment on several machines says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...model.analysis import Overall
from ...model.machines import MachineInteraction, MachineKind, Machines, MachineVariance
from ...model.metrics import metric_named
from ...model.observations import Observations
from ..block_model import cv_of
from ..overall import overall_of
from ..scale import margin_of
from ..tables import Table
from .interaction import Question, interactions
from .kinds import Kind, by_machine, kinds_by_facts, without_odd_ones
from .parts import grouped, on_machines, shared_workloads
from .speeds import speeds_of
from .split_plot import split_plot

Common = tuple[tuple[str, ...], tuple[str, ...]]  # workloads and treatments of a complete table of means


def machines_of(
    observations: Observations, tables: Mapping[str, Sequence[Table]], common: Mapping[str, Common], *, checks: int
) -> Machines | None:
    """None unless blocks ran on the machines of a fleet. `tables`, `common`: of the leading metrics; `checks`: A/A checks of the
    experiment. O(blocks x treatments x kinds, and with odd machines x machines^2).
    """
    leading = [m for m in (observations.settings.time_metric, observations.settings.memory_metric) if common.get(m, ((),))[0]]
    if not observations.on_a_fleet or not leading:
        return None
    seen = {node for m in leading for t in tables[m] for node in t.nodes}
    nodes = tuple(n for n in dict.fromkeys([*observations.machines, *sorted(seen)]) if n in seen)
    workloads = tuple(w for w in common[leading[0]][0] if all(w in common[m][0] for m in leading))
    chosen = {m: [t for t in tables[m] if t.workload in workloads] for m in leading}
    questions = [_question(observations, m, chosen[m], common[m][1], workloads) for m in leading]
    kinds = without_odd_ones(kinds_by_facts(nodes, observations.machines), questions)
    both = [t for found in chosen.values() for t in found]
    shared, kept = shared_workloads(both, [k.nodes for k in kinds], workloads)
    left = [k for i, k in enumerate(kinds) if i not in kept]
    known = [kinds[i] for i in kept]
    names = tuple(name_of(k.nodes) for k in known)
    group_of = {node: i for i, kind in enumerate(known) for node in kind.nodes}
    asked = [
        replace(q, tables=tuple(t for t in q.tables if t.workload in shared), names=names, group_of=group_of) for q in questions
    ]
    # Machines of one kind are asked one by one: nothing else can differ.
    tested = asked if len(known) > 1 else [q for k in known for one in asked if (q := by_machine(one, k.nodes)) is not None]
    found = tuple(i for q in tested for i in interactions(q))
    return Machines(
        nodes,
        tuple(_kind(kind, known[0], observations, asked, shared, {m: common[m][1] for m in leading}, checks) for kind in known),
        shared,
        found,
        tuple(v for q in tested for v in _variances(q)),
        tuple(
            speed for q in questions for speed in speeds_of(q.metric, q.tables, nodes, _steady(q, found), confidence=q.confidence)
        ),
        tuple(node for kind in left for node in kind.nodes),
    )


def name_of(nodes: Sequence[str]) -> str:
    """`node1`, `node1 +2`; the lab's own machine has no name."""
    first = nodes[0] or "lab"
    return first if len(nodes) == 1 else f"{first} +{len(nodes) - 1}"


def _question(
    observations: Observations, metric: str, tables: Sequence[Table], treatments: Sequence[str], workloads: Sequence[str]
) -> Question:
    settings, baseline = observations.settings, observations.baseline
    by_workload = {t.workload: t for t in tables}
    others = tuple(t for t in treatments if t != baseline)
    margin = margin_of(metric_named(metric), settings)
    return Question(metric, tuple(by_workload[w] for w in workloads), others, baseline, (), {}, margin, settings.confidence)


def _steady(asked: Question, found: Sequence[MachineInteraction]) -> tuple[str, ...]:
    """The baseline and what keeps its ratio to it: how fast a machine is, is no matter of what it is good or bad at."""
    moved = {i.treatment for i in found if i.metric == asked.metric and not i.workload and i.answer == "depends"}
    return (asked.baseline, *(t for t in asked.treatments if t not in moved))


def _kind(
    kind: Kind,
    usual: Kind,
    observations: Observations,
    asked: Sequence[Question],
    workloads: tuple[str, ...],
    treatments: Mapping[str, tuple[str, ...]],
    checks: int,
) -> MachineKind:
    overall: list[Overall] = []
    blocks = 0
    for question in asked:
        here = [part for t in question.tables if (part := on_machines(t, kind.nodes)) is not None]
        blocks = max(blocks, sum(len(t.values) for t in here))
        found = overall_of(
            question.metric, here, workloads, treatments[question.metric], baseline=question.baseline,
            settings=observations.settings, control=observations.control, checks=checks,
        )  # fmt: skip
        overall += [found] if found is not None else []
    differs = tuple(value for name, value in kind.facts.items() if usual.facts.get(name) != value)
    return MachineKind(name_of(kind.nodes), kind.nodes, differs, tuple(kind.facts.items()), blocks, tuple(overall), kind.split)


def _variances(asked: Question) -> list[MachineVariance]:
    """The textbook's table of each workload. Empty with one group."""
    if len(asked.names) < 2:
        return []
    made = []
    for table in asked.tables:
        y, groups = grouped(table, asked.group_of)
        found = split_plot(y[:, [table.labels.index(t) for t in (asked.baseline, *asked.treatments)]], groups)
        machine, both = found.machine, found.interaction
        made.append(
            MachineVariance(
                asked.metric, table.workload, machine.f, machine.df, found.block_df, machine.p, both.f, both.df, found.error_df,
                both.p, both.omega_squared, cv_of(found.mean_square),
            )
        )  # fmt: skip
    return made

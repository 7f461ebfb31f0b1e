# SPDX-License-Identifier: Apache-2.0
"""What an answer says of the machines of a fleet: best on every kind, or best on this kind of machine, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..model.analysis import Analysis, ByLevel, Comparison, LevelEffect, Overall
from ..model.machines import MachineInteraction, MachineKind, Machines
from ..model.metrics import metric_named
from ..model.preference import BY_TIME, Preference
from ..model.units import counted
from .choice import choose, on_kind, sides
from .effect_words import TIMES, effect, noun_of, span
from .words import change, listed, percent

FACTOR = "machine"
MOST_NODES = 4  # named one by one
MOST_GAINS = 2  # of an allocator, each with its interval
NO_FACT = "no recorded fact differs"


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The treatment that is best on every kind of machine, with its gain on each."""

    treatment: str
    gains: tuple[Comparison, ...]


def everywhere(analysis: Analysis, preference: Preference = BY_TIME) -> Everywhere | None:
    """What the answer names, if it is better than the baseline on each kind of machine and no other is shown to be better there;
    None with one kind. Every kind must pass at full level, so that no correction for their number is due (Berger 1982)."""
    machines, chosen = analysis.machines, choose(analysis, preference)
    if machines is None or len(machines.kinds) < 2 or chosen is None:
        return None
    gains = []
    for kind in machines.kinds:
        here = on_kind(analysis, kind)
        gain = _gain(here, chosen, preference)
        if gain is None or _beaten(here.over_all(gain.metric), chosen):
            return None
        gains.append(gain)
    if len({g.metric for g in gains}) > 1:
        return None
    return Everywhere(chosen, tuple(gains))


def by_machine(analysis: Analysis, preference: Preference = BY_TIME) -> str:
    """The headline where no one ratio stands for all kinds of machine, since it is shown to depend on them; else ""."""
    machines = analysis.machines
    if machines is None or len(machines.kinds) < 2 or not _dependent(analysis):
        return ""
    if (found := everywhere(analysis, preference)) is not None:
        return _on_every_kind(analysis, found) if found.treatment in machines.depends(found.gains[0].metric) else ""
    choices = chosen_by_kind(analysis, preference)
    moved = _dependent(analysis)
    pooled = choose(analysis, preference)
    if all(c in (pooled, None) for _, c in choices) and pooled not in moved:
        return ""  # what is named does not depend on the machine, though on one kind alone it may be undecided
    if not any(c for _, c in choices):
        return f"No allocator is shown to be better than {analysis.baseline} on any kind of machine."
    groups: dict[str | None, list[MachineKind]] = {}
    for kind, chosen in sorted(choices, key=lambda c: c[1] is None):
        groups.setdefault(chosen, []).append(kind)
    told = [_group(analysis, chosen, found, preference) for chosen, found in groups.items()]
    return f"Best on this kind of machine, against {analysis.baseline}: {'; '.join(told)}."


def machine_sentences(analysis: Analysis, preference: Preference = BY_TIME, *, kinds: bool = True) -> list[str]:
    """What a reader must know of the machines, the most important first; empty without a fleet. Without `kinds` not what differs
    between them, which a table says. O(machines + interactions)."""
    machines = analysis.machines
    if machines is None:
        return []
    told = [_first(analysis, machines, preference)]
    for kind in machines.kinds[1:] if kinds else ():
        told.append(f"{named(kind.nodes)}: {what_differs(kind)}.")
    if moved := [i for i in machines.interactions if not i.workload and i.answer == "depends"]:
        told.append(_dependence_words(moved))
    every = analysis.over_all(analysis.time)
    if every is not None and 0 < len(machines.workloads) < len(every.workloads):
        over = f"{len(machines.workloads)} of {analysis.counted(len(every.workloads))}"
        told.append(f"Kinds are compared over {over}: of these each has two blocks.")
    if machines.too_few:
        told.append(f"{named(machines.too_few)}: too few blocks to tell.")
    if speed := _speed_words(analysis, machines):
        told.append(speed)
    single = [i for i in machines.interactions if i.workload and i.answer == "depends"]
    if single := [i for i in single if i.treatment not in machines.depends(i.metric)]:
        places = listed([f"{i.treatment} on {i.workload}" for i in single], MOST_NODES)
        told.append(f"On single {analysis.workload_noun}s the machine changes the ratio of {places}.")
    return told


def machine_line(analysis: Analysis, columns: int, preference: Preference = BY_TIME) -> str:
    """The sentences that fit into so many columns, at least the first; what differs between kinds whole or not at all."""
    told_of_all, others = machine_sentences(analysis, preference), machine_sentences(analysis, preference, kinds=False)
    differing = told_of_all[1 : 1 + len(told_of_all) - len(others)]
    text = " ".join([*others[:1], *differing])
    if len(text) > columns:
        text = f"{others[0]} What differs: --verbose."
    for told in others[1:]:
        if text and len(text) + 1 + len(told) > columns:
            break
        text = f"{text} {told}".strip()
    return text


def chosen_by_kind(analysis: Analysis, preference: Preference = BY_TIME) -> list[tuple[MachineKind, str | None]]:
    """What the preference names on each kind of machine, from its own blocks."""
    machines = analysis.machines
    return [(kind, choose(on_kind(analysis, kind), preference)) for kind in machines.kinds] if machines is not None else []


def chosen_for_all(analysis: Analysis, preference: Preference = BY_TIME) -> str | None:
    """What the preference names, unless that goes by kind of machine."""
    chosen = choose(analysis, preference)
    return None if by_machine(analysis, preference) and everywhere(analysis, preference) is None else chosen


def machine_levels(analysis: Analysis, preference: Preference = BY_TIME) -> ByLevel | None:
    """Effects by kind of machine of what the reader prefers, where some treatment's is shown to depend on it; else None."""
    metric = analysis.memory if preference.prefer == "memory" else analysis.time
    machines = analysis.machines
    if machines is None or len(machines.kinds) < 2 or not machines.depends(metric):
        return None
    effects = [
        LevelEffect(c.treatment, kind.name, c.interval, c.simultaneous, c.verdict, c.interval.ratio, c.interval.ratio)
        for kind in machines.kinds
        if (overall := kind.over_all(metric)) is not None
        for c in overall.comparisons
    ]
    return ByLevel(metric, FACTOR, tuple(k.name for k in machines.kinds), tuple(effects), machines.depends(metric))


def pooled_in_vain(analysis: Analysis, metric: str, treatment: str) -> bool:
    """Whether a ratio over all machines is a mean of ratios that are shown to differ."""
    return analysis.machines is not None and treatment in analysis.machines.depends(metric)


def over_machines(analysis: Analysis, found: Comparison) -> str:
    """`memory by machine from +3.1 % to +12 %`, where no mean stands for all machines; else ""."""
    if not pooled_in_vain(analysis, found.metric, found.treatment):
        return ""
    machines = analysis.machines
    moved = machines.interaction(found.metric, found.treatment) if machines is not None else None
    ends = f" from {change(min(moved.ratios))} to {change(max(moved.ratios))}" if moved is not None else ""
    return f"{noun_of(metric_named(found.metric))} by machine{ends}"


def named(nodes: Sequence[str]) -> str:
    """`node1`, `node1, node2 and node3`; the lab's own machine by that name."""
    return listed([n or "the lab's own machine" for n in nodes], MOST_NODES)


def what_differs(kind: MachineKind) -> str:
    """`glibc tcache off, 1 processor`: against the kind of most machines."""
    return ", ".join(kind.differs) or NO_FACT


def _first(analysis: Analysis, machines: Machines, preference: Preference) -> str:
    if len(machines.nodes) == 1:
        return f"Every block ran on {named(machines.nodes)}."
    kinds = len(machines.kinds)
    what = f"{len(machines.nodes)} machines of {'one kind' if kinds == 1 else f'{kinds} kinds'}"
    if not kinds:
        return f"{len(machines.nodes)} machines, each with too few blocks to tell them apart."
    found = everywhere(analysis, preference)
    if found is not None:
        return f"{what}; {found.treatment} is best on every kind."
    if _dependent(analysis):
        return f"{what}, and ratios depend on the kind."
    over = [i for i in machines.interactions if not i.workload]
    if over and all(i.answer == "alike" for i in over):
        return f"{what}; every ratio is the same on all, within the margin."
    return f"{what}; no ratio is shown to depend on the machine."


def _dependence_words(moved: Sequence[MachineInteraction]) -> str:
    largest = max(moved, key=lambda i: i.largest.ratio)
    who = listed(list(dict.fromkeys(i.treatment for i in moved)))
    noun = noun_of(metric_named(largest.metric))
    return (
        f"One number does not stand for {who}: {largest.treatment}'s {noun} ratio on {largest.high} is "
        f"{largest.largest.ratio:.3g} times that on {largest.low}."
    )


def _speed_words(analysis: Analysis, machines: Machines) -> str:
    """`node3 takes 1.7 times the time of node1, which cancels in ratios.`, where that is beyond doubt and the margin."""
    speeds = [s for s in machines.speeds if s.metric == analysis.time]
    if metric_named(analysis.time).direction != "lower" or len(speeds) < 2:
        return ""
    fast, slow = min(speeds, key=lambda s: s.interval.ratio), max(speeds, key=lambda s: s.interval.ratio)
    times = slow.interval.ratio / fast.interval.ratio
    if slow.interval.low <= fast.interval.high * (1 + analysis.margin(analysis.time)):
        return ""
    more = f"{times:.2g} times the time" if times >= TIMES else f"{percent(times - 1)} more time"
    than = f"of {named([fast.node])}" if times >= TIMES else f"than {named([fast.node])}"
    return f"{named([slow.node])} takes {more} {than}, which cancels in ratios."


def _dependent(analysis: Analysis) -> tuple[str, ...]:
    """Treatments whose ratio in time or memory depends on the kind of machine."""
    machines = analysis.machines
    return tuple(t for m in analysis.primary for t in machines.depends(m)) if machines is not None else ()


def _gain(here: Analysis, treatment: str, preference: Preference) -> Comparison | None:
    """That in which it is better, the preferred one first."""
    time, memory = sides(here, treatment)
    order = (memory, time) if preference.prefer == "memory" else (time, memory)
    return next((c for c in order if c is not None and c.verdict == "better"), None)


def _beaten(overall: Overall | None, treatment: str) -> bool:
    """Whether another treatment is shown to be better there."""
    if overall is None:
        return True
    return any(
        (d.treatment == treatment and d.verdict == "worse") or (d.rival == treatment and d.verdict == "better")
        for d in overall.duels
    )


def _on_every_kind(analysis: Analysis, found: Everywhere) -> str:
    gains = span([g.interval.ratio for g in found.gains], found.gains[0].metric)
    count = counted(len(found.gains), "kind")
    return f"{found.treatment}: best on each of {count} of machine, {gains} than {analysis.baseline}, by machine."


def _group(analysis: Analysis, chosen: str | None, kinds: Sequence[MachineKind], preference: Preference) -> str:
    nodes = named([node for kind in kinds for node in kind.nodes])
    if chosen is None:
        return f"none is shown to be better on {nodes}"
    found = [(kind, g) for kind in kinds if (g := _gain(on_kind(analysis, kind), chosen, preference)) is not None]
    if len(found) <= MOST_GAINS:
        return f"{chosen} {listed([f'on {named(kind.nodes)} ({effect(g.interval, g.metric)})' for kind, g in found])}"
    return f"{chosen} on {nodes} ({span([g.interval.ratio for _, g in found], found[0][1].metric)})"

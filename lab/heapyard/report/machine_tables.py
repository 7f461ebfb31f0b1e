# SPDX-License-Identifier: Apache-2.0
"""The machines as tables: which kinds there are, and each allocator's ratio on each of them. The same for every form."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.analysis import Analysis, Comparison
from ..model.machines import MachineInteraction
from ..model.metrics import metric_named
from .anova_words import p_text
from .machine_words import named, what_differs
from .words import direction_text, percent, sentence

KINDS_HEAD = ("kind", "machines", "blocks", "what differs")
POOLED = "Tables by program pool the blocks of all machines."
SPEED_NOTE = "The machine's own speed cancels in ratios."


@dataclass(frozen=True, slots=True)
class KindTable:
    """One metric: treatments down, kinds of machine across. `rows`: treatment, its comparison on each kind (None where it was
    not measured), and whether it depends on the machine, in words. `note`: whether a mean over machines stands for it."""

    title: str
    kinds: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Comparison | None, ...], str], ...]
    note: str


def kinds_in_words(analysis: Analysis) -> list[tuple[str, str, str, str]]:
    """Rows under KINDS_HEAD. O(kinds)."""
    machines = analysis.machines
    if machines is None:
        return []
    usual = "the others are compared with it"
    return [
        (k.name, named(k.nodes), str(k.blocks), what_differs(k) if i or k.split else usual if len(machines.kinds) > 1 else "")
        for i, k in enumerate(machines.kinds)
    ]


def kind_tables(analysis: Analysis) -> list[KindTable]:
    """One per leading metric with a fleet. O(kinds x treatments)."""
    machines = analysis.machines
    if machines is None or not machines.kinds:
        return []
    made = []
    for name in analysis.primary:
        overall = [kind.over_all(name) for kind in machines.kinds]
        treatments = dict.fromkeys(c.treatment for o in overall if o is not None for c in o.comparisons)
        if not treatments:
            continue
        rows = tuple(
            (t, tuple(o.of(t) if o is not None else None for o in overall), dependence_words(machines.interaction(name, t)))
            for t in treatments
        )
        metric, moved = metric_named(name), machines.depends(name)
        over = f" over {analysis.counted(len(machines.workloads))}" if len(machines.workloads) > 1 else ""
        title = f"{sentence(metric.title)} by kind of machine{over}; {direction_text(metric)}"
        note = f"No mean over machines stands for {', '.join(moved)}." if moved else ""
        made.append(KindTable(title, tuple(k.name for k in machines.kinds), rows, note))
    return made


def dependence_words(found: MachineInteraction | None) -> str:
    """`depends, p < 0.001`; `alike`; `cannot tell, up to 3.1 %`: the most that the interval allows for."""
    if found is None:
        return ""
    if found.answer == "depends":
        p = p_text(found.p_value)
        return f"depends, p {p if p.startswith('<') else f'= {p}'}"
    return "alike" if found.answer == "alike" else f"cannot tell, up to {percent(found.largest.high - 1)}"


def speed_rows(analysis: Analysis) -> list[tuple[str, str]]:
    """(machine, time beside the mean of all with its interval), the fastest first."""
    machines = analysis.machines
    speeds = [s for s in machines.speeds if s.metric == analysis.time] if machines is not None else []
    return [
        (named([s.node]), f"{s.interval.ratio:.3f} [{s.interval.low:.3f}, {s.interval.high:.3f}]")
        for s in sorted(speeds, key=lambda s: s.interval.ratio)
    ]


def variance_rows(analysis: Analysis) -> list[tuple[str, ...]]:
    """The split-plot tables in lines: metric, workload; F, df and p of the machine; the same of machine x allocator."""
    machines = analysis.machines
    return [
        (
            metric_named(v.metric).title, v.workload, f"{v.node_f:.3g}", f"{v.node_df}, {v.block_df}", p_text(v.node_p),
            f"{v.interaction_f:.3g}", f"{v.interaction_df}, {v.error_df}", p_text(v.interaction_p), f"{v.omega_squared:.3f}",
        )
        for v in (machines.variances if machines is not None else ())
    ]  # fmt: skip

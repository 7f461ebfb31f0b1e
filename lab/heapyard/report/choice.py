# SPDX-License-Identifier: Apache-2.0
"""Which allocator the answer names, by the reader's preference, and which ones are out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..model.analysis import Analysis, Comparison, Duel, Interval, LevelEffect, Verdict
from ..model.machines import MachineKind
from ..model.metrics import metric_named
from ..model.preference import BY_TIME, Preference

Duels = Mapping[tuple[str, str], Duel]  # by treatment and rival
Sides = tuple[Comparison | None, Comparison | None]  # time and memory of one treatment


@dataclass(frozen=True, slots=True)
class Lost:
    """A treatment that is out: `to` is shown to be better in time or memory, and it is better in none."""

    treatment: str
    to: str


def sides(analysis: Analysis, treatment: str) -> Sides:
    """Its comparisons over all workloads in time and in memory."""
    time, memory = (analysis.over_all(m) for m in analysis.primary)
    return (time.of(treatment) if time else None), (memory.of(treatment) if memory else None)


def on_kind(analysis: Analysis, kind: MachineKind) -> Analysis:
    """The answer of one kind of machine: its own blocks, over the workloads that all kinds have."""
    return replace(analysis, overall=kind.overall, by_level=(), machines=None)


def choose(analysis: Analysis, preference: Preference = BY_TIME) -> str | None:
    """The treatment that the preference names, among those shown to be better than the baseline; None if there is none.

    O(treatments^2).
    """
    found = {t: sides(analysis, t) for t in analysis.treatments if t != analysis.baseline}
    leading = 1 if preference.prefer == "memory" else 0
    if preference.prefer == "balance":
        kept = [t for t, both in found.items() if _better(both, 0) and _no_worse(both, 1)]
        kept += [t for t, both in found.items() if t not in kept and _better(both, 1) and _no_worse(both, 0)]
        leading = 0 if any(_better(found[t], 0) for t in kept) else 1
        kept = [t for t in kept if _better(found[t], leading)]
    else:
        kept = [t for t, both in found.items() if _better(both, leading)]
        if not kept:  # nothing gains what is preferred: what gains the other for no price
            leading = 1 - leading
            kept = [t for t, both in found.items() if _better(both, leading) and _no_worse(both, 1 - leading)]
    kept = [t for t in kept if _within(found[t][1], preference.memory_limit)]
    if not kept:
        return None
    best = min(kept, key=lambda t: _cost(analysis, found[t], leading))
    alike = (t for t in kept if t != best and verdict_against(analysis, leading, t, best) != "worse")
    cheaper = [t for t in alike if verdict_against(analysis, 1 - leading, t, best) == "better"]
    return min(cheaper, key=lambda t: _cost(analysis, found[t], 1 - leading), default=best)


def others_chosen(analysis: Analysis, preference: Preference, chosen: str | None) -> list[tuple[str, str]]:
    """What other preferences would name: (preference, treatment), each treatment once and never the `chosen` one."""
    found: dict[str, str] = {}
    for prefer in ("time", "memory", "balance"):
        other = choose(analysis, replace(preference, prefer=prefer))
        if other is not None and other != chosen and other not in found.values():
            found[prefer] = other
    return list(found.items())


def dominated(analysis: Analysis) -> list[Lost]:
    """Treatments that are out, each with one that beats it: the baseline if that does, else the first in display order.

    Out: worse in time or memory, beyond the margin and beyond doubt, and in the other not better; where that is undecided, a
    gain of more than the margin must be excluded. Where effects depend on the level of a factor or on the kind of machine, on
    every one. O(t^2 levels).
    """
    names = [t for t in analysis.treatments if t != analysis.baseline]
    machines = analysis.machines
    whole = (analysis, _all_duels(analysis))
    kinds = [(of, _all_duels(of)) for of in (on_kind(analysis, kind) for kind in (machines.kinds if machines else ()))]

    def beats(rival: str, treatment: str) -> bool:
        depends = machines is not None and any(
            t in machines.depends(metric) for t in (treatment, rival) for metric in analysis.primary
        )
        return all(_dominates(of, duels, rival, treatment) for of, duels in (kinds if depends else [whole]))

    lost = []
    for treatment in names:
        rivals = (analysis.baseline, *(t for t in names if t != treatment))
        to = next((rival for rival in rivals if beats(rival, treatment)), None)
        if to is not None:
            lost.append(Lost(treatment, to))
    return lost


def _dominates(analysis: Analysis, duels: Mapping[str, Duels], rival: str, treatment: str) -> bool:
    found = [_against(analysis, metric, duels[metric], treatment, rival) for metric in analysis.primary]
    if any(f is None for f in found):
        return False
    if any(level.verdict == "better" for level in _levels(analysis, treatment)) or _depends(analysis, treatment, rival):
        return False
    known = [(v, i, m) for f, m in zip(found, analysis.primary, strict=True) if f is not None for v, i in [f]]
    worse = any(v == "worse" for v, _, _ in known)
    return worse and all(v in ("worse", "equivalent") or not _may_gain(analysis, v, i, m) for v, i, m in known)


def _depends(analysis: Analysis, treatment: str, rival: str) -> bool:
    """Whether a mean over levels would decide between two whose effects differ from level to level."""
    of = [b for b in analysis.by_level if treatment in b.depends or rival in b.depends]
    if not of:
        return False
    return rival != analysis.baseline or not all(
        e.verdict in ("worse", "equivalent") for b in of for e in b.of(treatment)
    )


def _levels(analysis: Analysis, treatment: str) -> list[LevelEffect]:
    return [e for b in analysis.by_level for e in b.of(treatment)]


def _may_gain(analysis: Analysis, verdict: Verdict, simultaneous: Interval, metric: str) -> bool:
    """Whether the data allow for a gain of more than the margin."""
    if verdict == "better":
        return True
    margin = 1 + analysis.margin(metric)
    higher = metric_named(metric).direction == "higher"
    return simultaneous.high > margin if higher else simultaneous.low < 1 / margin


_OPPOSITE: dict[Verdict, Verdict] = {"better": "worse", "worse": "better"}


def _duels(analysis: Analysis, metric: str) -> Duels:
    overall = analysis.over_all(metric)
    return {} if overall is None else {(d.treatment, d.rival): d for d in overall.duels}


def _all_duels(analysis: Analysis) -> dict[str, Duels]:
    return {metric: _duels(analysis, metric) for metric in analysis.primary}


def _against(
    analysis: Analysis, metric: str, duels: Duels, treatment: str, rival: str
) -> tuple[Verdict, Interval] | None:
    """The treatment's verdict against a rival, with the interval that holds for all pairs. O(1)."""
    overall = analysis.over_all(metric)
    if overall is None:
        return None
    if rival == analysis.baseline:
        found = overall.of(treatment)
        return None if found is None else (found.verdict, found.simultaneous)
    if (duel := duels.get((treatment, rival))) is not None:
        return duel.verdict, duel.simultaneous
    if (duel := duels.get((rival, treatment))) is not None:
        i = duel.simultaneous
        turned = Interval(*(1 / x if x > 0 else math.inf for x in (i.ratio, i.high, i.low)))
        return _OPPOSITE.get(duel.verdict, duel.verdict), turned
    return None


def verdict_against(analysis: Analysis, side: int, treatment: str, rival: str) -> Verdict:
    """What the treatment is against a rival in time (0) or memory (1)."""
    metric = analysis.primary[side]
    found = _against(analysis, metric, _duels(analysis, metric), treatment, rival)
    return found[0] if found is not None else "undecided"


def _better(both: Sides, side: int) -> bool:
    found = both[side]
    return found is not None and found.verdict == "better"


def _no_worse(both: Sides, side: int) -> bool:
    """Shown to be better or the same within the margin; undecided is neither."""
    found = both[side]
    return found is not None and found.verdict in ("better", "equivalent")


def _within(memory: Comparison | None, limit: float | None) -> bool:
    """Whether the memory is shown to stay within the limit."""
    return limit is None or (memory is not None and memory.interval.high <= 1 + limit)


def _cost(analysis: Analysis, both: Sides, side: int) -> float:
    """The ratio, so turned that less is better; inf where it was not measured."""
    found = both[side]
    if found is None or not math.isfinite(found.interval.ratio):
        return math.inf
    higher = metric_named(analysis.primary[side]).direction == "higher"
    return -found.interval.ratio if higher else found.interval.ratio

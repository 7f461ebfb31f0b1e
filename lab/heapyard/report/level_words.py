# SPDX-License-Identifier: Apache-2.0
"""What a study found, level by level: `equal with threads 1, 3.1 to 8.2 times faster with threads 2 and 8`."""

from __future__ import annotations

from ..model.analysis import Analysis, ByLevel, LevelEffect, Verdict
from ..model.metrics import metric_named
from ..model.preference import BY_TIME, Preference
from .effect_words import noun_of, span
from .words import listed, sentence

MOST_LEVELS = 6  # named one by one


def effects_in_words(by: ByLevel, treatment: str) -> str:
    """One treatment's effect by level; levels with the same verdict stand together, in the order of the levels."""
    groups: dict[Verdict, list[LevelEffect]] = {}
    for e in by.of(treatment):
        groups.setdefault(e.verdict, []).append(e)
    parts = [_group(by, verdict, found) for verdict, found in groups.items()]
    return ", ".join(parts)


def gainers(by: ByLevel) -> list[str]:
    """Treatments better at some level, those first that lose at fewest levels, then those that gain most on average."""
    better = {t: [e for e in by.of(t) if e.verdict == "better"] for t in dict.fromkeys(e.treatment for e in by.effects)}
    higher = metric_named(by.metric).direction == "higher"

    def order(treatment: str) -> tuple[int, int, float]:
        seen = by.of(treatment)
        mean = 1.0
        for e in seen:
            mean *= max(e.interval.ratio, 1e-9) ** (1 / len(seen))
        worse = sum(e.verdict == "worse" for e in seen)
        return worse, -len(better[treatment]), -mean if higher else mean

    return sorted((t for t, found in better.items() if found), key=order)


def where(by: ByLevel, levels: list[str]) -> str:
    """`with threads 2, 4 and 8`; all of them: `at every level of threads`."""
    name = by.factor.replace("_", " ")
    if len(levels) == len(by.levels):
        return f"at every level of {name}"
    return f"with {name} {listed(levels, MOST_LEVELS)}"


def _group(by: ByLevel, verdict: Verdict, found: list[LevelEffect]) -> str:
    at = where(by, [e.level for e in found])
    if verdict == "equivalent":
        return f"equal {at}"
    if verdict == "undecided":
        return f"undecided {at}"
    return f"{span([e.interval.ratio for e in found], by.metric)} {at}"


def dependence(analysis: Analysis, preference: Preference = BY_TIME) -> ByLevel | None:
    """The effects by level of what the reader prefers, where they depend on the level so that a mean would hide it; else None."""
    found = analysis.level_effects(analysis.memory if preference.prefer == "memory" else analysis.time)
    return found if found is not None and found.depends else None


def level_heading(by: ByLevel, baseline: str) -> str:
    """`Change of time to glibc by threads`."""
    return f"{sentence(noun_of(metric_named(by.metric)))} by {by.factor.replace('_', ' ')}, change to {baseline}"

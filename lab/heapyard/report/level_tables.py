# SPDX-License-Identifier: Apache-2.0
"""Effects by level as tables of a page: treatments down, levels across, ratios with intervals and marks."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.analysis import Analysis, LevelEffect
from ..model.metrics import metric_named
from .words import direction_text, sentence


@dataclass(frozen=True, slots=True)
class LevelTable:
    """`rows`: treatment, then one effect per level, None where it was not measured. `note`: whether a mean hides something."""

    title: str
    levels: tuple[str, ...]
    rows: tuple[tuple[str, tuple[LevelEffect | None, ...]], ...]
    note: str


def level_tables(analysis: Analysis) -> list[LevelTable]:
    """One per leading response of a study with levels. O(treatments x levels)."""
    made = []
    for by in analysis.by_level:
        metric = metric_named(by.metric)
        factor = by.factor.replace("_", " ")
        rows = tuple(
            (t, tuple({e.level: e for e in by.of(t)}.get(level) for level in by.levels))
            for t in dict.fromkeys(e.treatment for e in by.effects)
        )
        if by.depends:
            note = f"The effect depends on {factor} by more than the margin for {', '.join(by.depends)}: no mean stands for it."
        else:
            note = f"No effect is shown to depend on {factor} by more than the margin."
        title = f"{sentence(metric.title)} by {factor}; {direction_text(metric)}"
        made.append(LevelTable(title, by.levels, rows, note))
    return made

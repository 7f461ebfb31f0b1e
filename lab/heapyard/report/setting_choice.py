# SPDX-License-Identifier: Apache-2.0
"""Which of the confirmed settings a search names: all of its trials say which is best, fresh blocks alone say what is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..model.analysis import Analysis
from ..model.preference import Preference
from ..model.tuning import Choice, Space
from .choice import choose, sides, verdict_against

if TYPE_CHECKING:
    from ..stats.tuning.surface import Measured


def choose_setting(confirmed: Analysis, space: Space, finalists: Sequence[Choice], preference: Preference,
                   phases: tuple[Measured, Measured], margins: tuple[float, float]) -> Choice | None:
    """One of the `finalists` that the preference allows and that is shown to be better than the default; None without any.

    Fresh blocks are few: two finalists that differ look alike there, and the cheaper one would be named. So what all `phases`
    (time and memory) together put behind the best by more than half a margin is no candidate. Of those left, settings that are
    not shown to gain anything beside the others are left out where a finalist does without. O(finalists^2 + choices^3).
    """
    from ..stats.tuning.surface import fit_surface

    labels = {space.label(choice): choice for choice in finalists}
    named = choose(confirmed, preference)
    if named is None:
        return None
    leading = 1 if preference.prefer == "memory" else 0
    if not _is_better(confirmed, named, leading):
        leading = 1 - leading
    allowed = [label for label in labels if _is_better(confirmed, label, leading) and choose(_only(confirmed, [label]), preference)]
    gains, _ = fit_surface(space, phases[leading]).gains([labels[label] for label in allowed])
    close = gains <= gains.min() + math.log1p(margins[leading]) / 2
    candidates = [label for label, near in zip(allowed, close, strict=True) if near]
    best = choose(_only(confirmed, candidates), preference) or named
    if best not in labels:
        return None
    fewer = [label for label in candidates if _is_part_of(labels[label], labels[best])
             and all(verdict_against(confirmed, side, label, best) != "worse" for side in (0, 1))]
    return labels[min(fewer, key=lambda label: len(space.options(labels[label])), default=best)]


def _is_part_of(fewer: Choice, more: Choice) -> bool:
    return fewer != more and all(level in (0, other) for level, other in zip(fewer, more, strict=True))


def _only(analysis: Analysis, labels: Sequence[str]) -> Analysis:
    return replace(analysis, treatments=(analysis.baseline, *labels))


def _is_better(analysis: Analysis, label: str, response: int) -> bool:
    found = sides(analysis, label)[response]
    return found is not None and found.verdict == "better"

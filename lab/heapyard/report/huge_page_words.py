# SPDX-License-Identifier: Apache-2.0
"""Which huge pages the programs of an experiment had, in one short phrase for the top of its answer."""

from __future__ import annotations

from ..model.huge_pages import FACT, FACTOR, chosen, in_words
from ..model.record import Record


def huge_pages_of(record: Record) -> str:
    """Such as "huge pages on request (madvise)"; "" where an old experiment does not tell, or the machine is simulated.
    O(treatments)."""
    if record.experiment.settings.simulated.wanted:
        return ""
    levels = list(dict.fromkeys(t.levels.get(FACTOR, "default") for t in record.experiment.treatments))
    own = in_words(mode_of(record))
    if own and any(FACT in later for later in record.environment.values() if isinstance(later, dict)):
        own += ", changed meanwhile"
    if levels == ["default"]:
        return own
    if len(levels) == 1:
        return f"{in_words(levels[0])}, in every trial"
    told = f"huge pages by treatment ({', '.join(levels)})"
    return f"{told}; the machine's own: {own.removeprefix('huge pages ')}" if own else told


def mode_of(record: Record) -> str | None:
    """The machine's own mode when the experiment began; None where it is not known."""
    return chosen(str(record.environment.get(FACT, "")))

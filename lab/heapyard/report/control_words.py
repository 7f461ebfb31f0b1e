# SPDX-License-Identifier: Apache-2.0
"""The A/A control in a sentence: an alarm where it could mislead, else up to which size nothing deserves belief."""

from __future__ import annotations

import math

from ..model.analysis import Analysis
from .verdict import control_place
from .words import listed, percent

MOST_PLACES = 3


def control_in_words(analysis: Analysis) -> str:
    """One or two sentences. O(checks)."""
    control, base = analysis.control, analysis.baseline
    if not control.checked:
        return "A/A control: none was measured."
    if control.alarming:
        where = listed([control_place(analysis, *place) for place in control.misleads], MOST_PLACES)
        why = "something else than the allocator decides here. See heapyard doctor."
        if analysis.simulated.wanted:
            why = "the order of threads and the place of memory decide more than the allocator. Simulate more blocks."
        return f"A/A control: {base} DIFFERS from itself ({where}): {why}"
    if all(cell.blocks < 2 for cell in analysis.cells):
        return f"A/A control: one block cannot tell whether {base} differs from itself."
    noise = f"; noise {percent(control.noise)}" if control.noise >= 0 else ""
    size = f": no time difference below {percent(control.size)} deserves belief" if math.isfinite(control.size) else ""
    if control.differs:
        where = listed([control_place(analysis, *place) for place in control.differs], MOST_PLACES)
        belief = f"nothing as small deserves belief there{noise}."
        return f"A/A control: {base} differs from itself by less than the margin ({where}): {belief}"
    return f"A/A control passed{size}{noise}."

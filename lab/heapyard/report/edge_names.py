# SPDX-License-Identifier: Apache-2.0
"""Names of curves at the right edge of a figure, as near to their ends as they fit below each other."""

from __future__ import annotations

from collections.abc import Sequence

from .figure_parts import FONT

GAP = FONT + 2.0  # pixels between two names


def edge_places(wanted: Sequence[float], height: float) -> list[float]:
    """Pixels from the bottom for names that belong at `wanted`, in the same order; GAP apart and within the height if
    that many fit. O(n log n)."""
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    found: list[float] = []
    for i in order:
        found.append(max(wanted[i], found[-1] + GAP) if found else max(wanted[i], 0.0))
    limit = height
    for k in range(len(found) - 1, -1, -1):  # push down again what was pushed beyond the top
        found[k] = min(found[k], limit)
        limit = found[k] - GAP
    places = dict(zip(order, found, strict=True))
    return [places[i] for i in range(len(wanted))]

# SPDX-License-Identifier: Apache-2.0
"""Screening designs: few combinations of many settings, chosen so that each setting's main effect stands apart.

Orthogonal arrays come from pyDOE3 (Plackett and Burman's of 12 runs among them). A setting with fewer levels than its column
repeats some: frequencies stay proportional, so main effects stay apart (Addelman, "Orthogonal main-effect plans for
asymmetrical factorial experiments", Technometrics 4, 1962). Interactions are not apart: the race is for those.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from ..model.errors import UsageError
from ..model.tuning import Choice

WHOLE = 16  # so many combinations at most are all measured


def screening(counts: Sequence[int]) -> list[Choice]:
    """Which combinations to measure of settings with so many levels each, the defaults (all 0) first, each combination once.

    All of them where that is few, else the smallest array that has a column for each setting and repeats no combination. Where
    there is none, the smallest that repeats some: main effects then stand a little less apart, which the model allows for.
    UsageError where no array is large enough. O(arrays x columns).
    """
    whole = math.prod(counts)
    if whole <= WHOLE:
        return list(itertools.product(*map(range, counts)))
    from pyDOE3 import get_orthogonal_array, list_orthogonal_arrays

    best: tuple[bool, int, int, list[Choice]] | None = None
    for name in list_orthogonal_arrays():
        array = get_orthogonal_array(name)
        symbols = [int(column.max()) + 1 for column in array.T]
        columns = _columns_for(counts, symbols)
        if columns is None or len(array) >= whole:
            continue
        waste = sum(symbols[column] - count for column, count in zip(columns, counts, strict=True))
        rows = (tuple(int(row[c]) % count for c, count in zip(columns, counts, strict=True)) for row in array)
        runs = list(dict.fromkeys([(0,) * len(counts), *rows]))
        made = len(runs) < len(array), len(array), waste, runs
        if best is None or made[:3] < best[:3]:
            best = made
    if best is None:
        raise UsageError(
            f"no orthogonal array holds {len(counts)} settings with up to {max(counts)} levels", remedy="Give fewer by --setting."
        )
    return best[3]


def _columns_for(counts: Sequence[int], symbols: Sequence[int]) -> list[int] | None:
    """For each setting a column with enough symbols, the tightest one first; None if the array has too few."""
    free = sorted(range(len(symbols)), key=lambda column: symbols[column])
    found: dict[int, int] = {}
    for place in sorted(range(len(counts)), key=lambda place: -counts[place]):
        column = next((c for c in free if symbols[c] >= counts[place]), None)
        if column is None:
            return None
        free.remove(column)
        found[place] = column
    return [found[place] for place in range(len(counts))]

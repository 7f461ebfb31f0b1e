# SPDX-License-Identifier: Apache-2.0
"""Compact letter display: treatments that share a letter are not distinguishable (Piepho 2004, insert and absorb)."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

from numpy.typing import NDArray


def compact_letters(differs: NDArray, order: Sequence[int]) -> list[str]:
    """Letters per treatment from the symmetric matrix `differs`; `a` goes to the group of order[0].

    Two treatments share a letter exactly when they do not differ. Polynomial in practice; the number of letters is
    bounded by the number of maximal sets of indistinguishable treatments, at most k for the interval-like patterns
    that means produce.
    """
    count = len(order)
    groups: list[frozenset[int]] = [frozenset(range(count))]
    for i in range(count):
        for j in range(i + 1, count):
            if differs[i, j]:
                split = [part for g in groups for part in ((g - {i}, g - {j}) if {i, j} <= g else (g,))]
                groups = _absorbed(split)
    place = {treatment: rank for rank, treatment in enumerate(order)}
    groups.sort(key=lambda g: sorted(place[t] for t in g))
    return ["".join(_letter(n) for n, g in enumerate(groups) if t in g) for t in range(count)]


def _absorbed(groups: list[frozenset[int]]) -> list[frozenset[int]]:
    """Drop every group that lies within another; of equal ones keep the first."""
    unique = list(dict.fromkeys(groups))
    return [g for g in unique if g and not any(g < other for other in unique)]


def _letter(number: int) -> str:
    return ascii_letters[number] if number < len(ascii_letters) else f"({number})"

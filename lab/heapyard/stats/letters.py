# SPDX-License-Identifier: Apache-2.0
"""Compact letter display: treatments that share a letter are not distinguishable (Piepho 2004, insert and absorb)."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

import numpy as np
from numpy.typing import NDArray

MOST_GROUPS = 4  # letters for each treatment, before patterns are simplified


def compact_letters(differs: NDArray[np.bool_], order: Sequence[int]) -> list[str]:
    """Letters per treatment from the symmetric matrix `differs`; `a` goes to the group of order[0].

    Two treatments share a letter exactly when they do not differ. A letter is a largest set of treatments that do not: of k
    treatments whose means are too far apart there are at most k, found in O(k^3). Scatter that is unequal can make exponentially
    many; from 4 k on, only as many are taken as let each two share one, in O(k^4).
    """
    groups = _all_largest(differs, order) or _enough(differs, order)
    place = {treatment: rank for rank, treatment in enumerate(order)}
    groups.sort(key=lambda g: sorted(place[t] for t in g))
    return ["".join(_letter(n) for n, g in enumerate(groups) if t in g) for t in range(len(order))]


def _all_largest(differs: NDArray[np.bool_], order: Sequence[int]) -> list[frozenset[int]]:
    """All largest sets of treatments that do not differ; [] where there are too many. In the order of means, few are at hand at
    any time."""
    groups = [frozenset(order)]
    for rank, i in enumerate(order):
        apart = frozenset(j for j in order[rank + 1 :] if differs[i, j])
        if apart:
            groups = _absorbed([part for g in groups for part in ((g - {i}, g - apart) if i in g and g & apart else (g,))])
        if len(groups) > MOST_GROUPS * len(order):
            return []
    return groups


def _enough(differs: NDArray[np.bool_], order: Sequence[int]) -> list[frozenset[int]]:
    """Some of the largest sets, so that each two treatments that do not differ are in one of them."""
    groups: list[frozenset[int]] = []
    alike = ~differs
    together = np.zeros_like(differs)  # in a set by now
    for rank, i in enumerate(order):
        for j in order[rank:]:
            if alike[i, j] and not together[i, j]:
                fits = alike[i] & alike[j]
                group = [i, j] if i != j else [i]
                for t in order:
                    if fits[t] and t not in group:
                        group.append(t)
                        fits &= alike[t]
                together[np.ix_(group, group)] = True
                groups.append(frozenset(group))
    return groups


def _absorbed(groups: list[frozenset[int]]) -> list[frozenset[int]]:
    """Drop every group that lies within another; of equal ones keep the first."""
    unique = list(dict.fromkeys(groups))
    return [g for g in unique if g and not any(g < other for other in unique)]


def _letter(number: int) -> str:
    return ascii_letters[number] if number < len(ascii_letters) else f"({number})"

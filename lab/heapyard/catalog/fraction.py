# SPDX-License-Identifier: Apache-2.0
"""Fractional factorial designs: a half, a quarter, an eighth of all combinations of factors with two levels.

A fraction measures main effects with fewer cells, and pays with confounding: some effects can no longer be told from
others. Generators of the highest resolution come from pyDOE3 (after Box, Hunter and Hunter, Statistics for
Experimenters, 2005, chapter 6); which effects are confounded is said before anything is run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..model.errors import UsageError

MOST_FACTORS = 15  # with two levels: the search for generators is over all sets of them


@dataclass(frozen=True, slots=True)
class Fraction:
    """`rows`: for every kept combination which level, 0 or 1, each of `factors` has. `confounded`: one sentence per
    effect of one or two factors that shares its estimate with another of at most two."""

    share: int  # 2: a half
    factors: tuple[str, ...]
    rows: frozenset[tuple[int, ...]]
    confounded: tuple[str, ...]

    def keeps(self, indices: Mapping[str, int]) -> bool:
        """Whether a combination, given by the index of each factor's level, belongs to the fraction."""
        return tuple(indices[name] for name in self.factors) in self.rows


def read_share(text: str) -> int:
    """`1/4` as 4; UsageError for anything but a power of two from 1/2 on."""
    found = re.fullmatch(r"1/(\d{1,9})", text.strip())
    share = int(found[1]) if found else 0
    if share < 2 or share & (share - 1):
        raise UsageError(f"'{text}' is not a fraction such as 1/2, 1/4 or 1/8")
    return share


def fraction_of(share: int, levels: Mapping[str, Sequence[object]]) -> Fraction:
    """The fraction over those factors that have two levels; the others stay fully crossed.

    UsageError when fewer runs would be left than main effects need. O(2^factors).
    """
    two = tuple(name for name, found in levels.items() if len(found) == 2)
    runs, parameters = 2 ** len(two) // share, len(two) + 1
    if runs < parameters or len(two) > MOST_FACTORS:
        raise UsageError(
            f"a fraction of 1/{share} of {len(two)} factors with two levels leaves {runs} runs for {parameters} parameters, "
            "the mean and the main effects"
        )
    import numpy as np
    from pyDOE3 import fracfact, fracfact_aliasing, fracfact_by_res, fracfact_opt

    try:
        design = np.asarray(fracfact(fracfact_opt(len(two), share.bit_length() - 1)[0]))
    except ValueError:  # its search knows nothing of the smallest fractions; resolution III is all these can have
        design = np.asarray(fracfact_by_res(len(two), 3))
    if len(design) != runs:
        raise UsageError(f"there is no fraction of 1/{share} of {len(two)} factors that keeps main effects apart")
    rows = frozenset(tuple(int(v > 0) for v in row) for row in design)
    return Fraction(share, two, rows, tuple(_sentences(fracfact_aliasing(design)[0], two)))


def _sentences(aliases: Sequence[str], factors: Sequence[str]) -> list[str]:
    """`a = bc = de` in the factors' names, without what takes three factors and more."""
    found = []
    for line in aliases:
        effects = [part.strip() for part in line.split("=")]
        short = [" x ".join(factors[ord(letter) - ord("a")] for letter in effect) for effect in effects if len(effect) <= 2]
        if len(short) > 1:
            found.append(f"{short[0]} cannot be told from {' or '.join(short[1:])}")
    return found

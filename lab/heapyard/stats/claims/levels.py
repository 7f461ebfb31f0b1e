# SPDX-License-Identifier: Apache-2.0
"""Claims about one treatment over the levels of a factor: flat_in, monotone. Rounds play the part of blocks."""

from __future__ import annotations

import math

import numpy as np

from ...model.analysis import Interval
from ...model.claim import Claim
from ..block_model import ROUNDING
from .part import Part, Selected, shown
from ..contrasts import Contrasts
from ..quantiles import t_quantile

TOO_FEW = Part("cannot tell", "needs two levels, and two rounds in which it was measured at each")


def flat_in(claim: Claim, selected: Selected, treatment: str) -> list[Part]:
    """Between any two levels the metric changes by less than the factor `bounds[1]`: equivalence tests of all pairs."""
    levels, y, parts = selected.levels(treatment)
    if len(y) < 2 or len(levels) < 2:
        return [*parts, TOO_FEW]
    high = claim.bounds[1]
    if high <= 1:
        return [Part("cannot tell", "names no factor above 1 that still counts as flat")]
    contrasts = Contrasts(y, range(len(levels)), confidence=selected.confidence)
    pairs = [(i, j) for i in range(len(levels)) for j in range(i + 1, len(levels))]
    for i, j in pairs:
        found = contrasts.against(i, [j], family=len(pairs) * len(selected.treatments))[0]
        change = f"{shown(found.pair)} times from {claim.over} {levels[i]} to {levels[j]}"
        told = f"{change}, claimed less than {high:g} times"
        size = abs(found.difference)
        if 1 / high < found.tost.low and found.tost.high < high:
            parts.append(Part("holds", told, -size))
        elif max(found.simultaneous.high, found.pair.high) < 1 / high or min(found.simultaneous.low, found.pair.low) > high:
            parts.append(Part("does not hold", told, size))
        else:
            parts.append(Part("cannot tell", told, size))
    return parts


def monotone(claim: Claim, selected: Selected, treatment: str) -> list[Part]:
    """A trend over the order of the levels in the claimed direction, and no step that is shown to go the other way.

    The trend is the slope of the log response over the rank of the level, one per round, tested by t over rounds. A
    step the other way counts where it is significant and not equivalent to none within the metric's margin. Refutation
    is corrected for the steps and the trend of every treatment of the claim (Bonferroni).
    """
    levels, y, parts = selected.levels(treatment)
    rounds, count = y.shape
    if rounds < 2 or count < 2:
        return [*parts, TOO_FEW]
    wanted = 1.0 if claim.direction == "rises" else -1.0
    family = count * len(selected.treatments)  # count - 1 steps and the trend
    contrasts = Contrasts(y, range(count), confidence=selected.confidence)
    for i in range(count - 1):
        step = contrasts.against(i, [i + 1], family=family)[0]
        together, pair = step.simultaneous, step.pair
        back = max(together.high, pair.high) < 1 if wanted > 0 else min(together.low, pair.low) > 1
        negligible = step.tost.low >= 1 / (1 + selected.margin) and step.tost.high <= 1 + selected.margin
        if back and not negligible:
            told = f"{shown(pair)} times from {claim.over} {levels[i]} to {levels[i + 1]}, against the claim"
            parts.append(Part("does not hold", told, abs(step.difference)))
    rank = np.arange(count) - (count - 1) / 2
    slopes = (y @ rank) / (rank @ rank)
    middle, sd = float(slopes.mean()), float(slopes.std(ddof=1))
    error = sd / math.sqrt(rounds) if sd > ROUNDING else 0.0
    middle = middle if abs(middle) > ROUNDING else 0.0
    alpha, reach = 1 - selected.confidence, count - 1
    half = _half(error, 1 - alpha / 2, rounds)
    change = Interval(*(math.exp(max(-700.0, min(s * reach, 700.0))) for s in (middle, middle - half, middle + half)))
    told = f"{shown(change)} times from {claim.over} {levels[0]} to {levels[-1]} along the trend"
    if wanted * middle - half > 0:
        parts.append(Part("holds", told, abs(middle)))
    elif wanted * middle + _half(error, 1 - alpha / (2 * family), rounds) < 0:
        parts.append(Part("does not hold", told, abs(middle)))
    else:
        parts.append(Part("cannot tell", told))
    return parts


def _half(error: float, probability: float, rounds: int) -> float:
    return t_quantile(probability, rounds - 1) * error if error > 0 else 0.0

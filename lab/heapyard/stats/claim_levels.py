"""Claims about one treatment over the levels of a factor: flat_in, monotone. Rounds play the part of blocks."""

from __future__ import annotations

import math

import numpy as np

from ..model.analysis import Interval
from ..model.claim import Claim
from .claim_part import Part, Selected, shown
from .contrasts import Contrasts
from .quantiles import t_quantile


def flat_in(claim: Claim, selected: Selected, treatment: str) -> list[Part]:
    """Between any two levels the metric changes by less than the bounds allow: an equivalence test of every pair."""
    levels, y = selected.levels(treatment)
    if len(y) < 2 or len(levels) < 2:
        return []
    low, high = min(claim.bounds[0] or 1 / claim.bounds[1], 1 / claim.bounds[1]), claim.bounds[1]
    contrasts = Contrasts(y, range(len(levels)), confidence=selected.confidence)
    pairs = [(i, j) for i in range(len(levels)) for j in range(i + 1, len(levels))]
    parts = []
    for i, j in pairs:
        found = contrasts.against(i, [j], family=len(pairs) * len(selected.treatments))[0]
        told = f"{shown(found.pair)} times from {claim.over} {levels[i]} to {levels[j]}, claimed within {low:.2g} to {high:g}"
        if low <= found.tost.low and found.tost.high <= high:
            parts.append(Part("holds", told, -abs(math.log(found.pair.ratio))))
        elif found.simultaneous.high < low or found.simultaneous.low > high:
            parts.append(Part("does not hold", told, abs(math.log(found.pair.ratio))))
        else:
            parts.append(Part("cannot tell", told, abs(math.log(found.pair.ratio))))
    return parts


def monotone(claim: Claim, selected: Selected, treatment: str) -> list[Part]:
    """A trend over the order of the levels in the claimed direction, and no step that is shown to go the other way.

    The trend is the slope of the log response over the rank of the level, one per round, tested by t over rounds.
    """
    levels, y = selected.levels(treatment)
    rounds, count = y.shape
    if rounds < 2 or count < 2:
        return []
    wanted = 1.0 if claim.direction == "rises" else -1.0
    rank = np.arange(count) - (count - 1) / 2
    slopes = (y @ rank) / (rank @ rank)
    middle, sd = float(slopes.mean()), float(slopes.std(ddof=1))
    half = t_quantile((1 + selected.confidence) / 2, rounds - 1) * sd / math.sqrt(rounds)
    reach = count - 1
    change = Interval(*(math.exp(min(s * reach, 700.0)) for s in (middle, middle - half, middle + half)))
    told = f"{shown(change)} times from {claim.over} {levels[0]} to {levels[-1]} along the trend"
    contrasts = Contrasts(y, range(count), confidence=selected.confidence)
    for i in range(count - 1):
        step = contrasts.against(i, [i + 1], family=(count - 1) * len(selected.treatments))[0]
        against = (
            max(step.simultaneous.high, step.pair.high) < 1
            if wanted > 0
            else min(step.simultaneous.low, step.pair.low) > 1
        )
        if against:
            where = f"{shown(step.pair)} times from {claim.over} {levels[i]} to {levels[i + 1]}"
            return [Part("does not hold", f"{where}, against the claim", abs(step.difference))]
    if wanted * middle - half > 0:
        return [Part("holds", told, abs(middle))]
    if wanted * middle + half < 0:
        return [Part("does not hold", told, abs(middle))]
    return [Part("cannot tell", told)]

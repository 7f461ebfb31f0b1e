# SPDX-License-Identifier: Apache-2.0
"""Four verdicts: better, worse, equivalent, undecided."""

from __future__ import annotations

import math

from ..model.analysis import Interval, Verdict
from ..model.metrics import Direction
from .scale import sign_of


def verdict(pair: Interval, simultaneous: Interval, tost: Interval, *, margin: float, direction: Direction) -> Verdict:
    """`equivalent` when the equivalence-test interval lies within the margin, even if a difference is proven: it is
    too small to matter, and the interval still shows it. Else `better` or `worse` (for a neutral metric: less or
    more) when the simultaneous interval excludes 1 and the pair's own does too: the one guards against the number of
    comparisons, the other against a pair that scatters more than the rest. Else `undecided`.

    `tost` is the interval at confidence 1 - 2 alpha; the margin runs from 1/(1+margin) to 1+margin so that exchanging
    treatment and baseline cannot change the verdict.
    """
    if math.isnan(tost.ratio):
        return "undecided"
    if 1 / (1 + margin) <= tost.low and tost.high <= 1 + margin:
        return "equivalent"
    if max(simultaneous.high, pair.high) < 1:
        return "worse" if sign_of(direction) > 0 else "better"
    if min(simultaneous.low, pair.low) > 1:
        return "better" if sign_of(direction) > 0 else "worse"
    return "undecided"

# SPDX-License-Identifier: Apache-2.0
"""At which rate an allocator is tried next: doubled or halved until the limits lie between two rates, then by its posterior.

Trials go by turns to the tenth and to the ninetieth percentile of where the threshold may lie. Both close in on it, as in
probabilistic bisection (Waeber, Frazier and Henderson 2013), and the distance between them shows how steep the curve is. At
the median alone the scatter stays unknown, and intervals wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..model.limits import Shown
from .threshold import Threshold, threshold

SIDES = (0.9, 0.1)
FIRST_STEP = 1.25  # from another allocator's capacity; squared with each further step, up to FACTOR
FACTOR = 2.0
LEAST_RATE = 1.0  # requests a second


def bounded(trials: Sequence[Shown]) -> bool:
    """Did some keep the limits, and some break them?"""
    return any(t.kept for t in trials) and not all(t.kept for t in trials)


def next_rate(trials: Sequence[Shown], start: float, *, near: bool = False, known: Threshold | None = None) -> float:
    """Requests a second, not rounded, LEAST_RATE at least. `start`: of the first trial; `near`: it is another allocator's
    capacity, where small steps do. `known`: the threshold of these trials, where it is at hand. O(trials x grid)."""
    if not trials:
        return max(start, LEAST_RATE)
    if bounded(trials):
        found = known or threshold(trials)
        wanted = math.exp(found.quantile(SIDES[len(trials) % len(SIDES)]))
        # What little is known at first has long tails; no server is asked for more than a step beyond what it bore.
        highest, lowest = max(t.rate for t in trials if t.kept), min(t.rate for t in trials if not t.kept)
        return max(min(wanted, highest * FACTOR), lowest / FACTOR, LEAST_RATE)
    factor = min(FACTOR, FIRST_STEP ** (2 ** (len(trials) - 1))) if near else FACTOR
    rates = [t.rate for t in trials]
    return max(rates) * factor if trials[0].kept else max(min(rates) / factor, LEAST_RATE)


def whole_rate(rate: float, loads: int) -> int:
    """The nearest one that `loads` equal loads can send, each a whole number of requests a second."""
    return max(round(rate / loads), 1) * loads

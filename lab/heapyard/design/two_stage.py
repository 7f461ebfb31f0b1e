# SPDX-License-Identifier: Apache-2.0
"""How many blocks: a pilot measures the noise, then Stein's two-stage rule (1945) fixes the number once and for all.

Stopping "when it looks significant" or "when the interval is narrow" biases the answer; a number fixed by the pilot's
noise alone does not, since under normal errors the noise estimate is independent of the means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

PLANNED_POWER = 0.8  # chance that the advised number of further blocks settles an undecided verdict
_MOST = 1_000_000  # blocks beyond which no advice is given


def blocks_wanted(
    log_values: ArrayLike, *, precision: float, confidence: float = 0.95, comparisons: int = 1, at_most: int = 200
) -> int:
    """Total number of blocks (the pilot's included) after which the interval of one ratio is at most +-`precision`.

    `log_values`: the pilot, blocks x treatments (A/A control included), ln of the response. The noise is the mean
    square of ln y = treatment + block + error on f = (b-1)(k-1) degrees of freedom, and the answer the smallest n >=
    b with

        t(1 - alpha / (2 comparisons); min(f, n-1)) * sqrt(2 MSE / n) <= ln(1 + precision).

    With f degrees of freedom this is Stein's rule; n-1 are those of the paired interval that is reported, which
    therefore comes out as narrow as asked for too. `comparisons` > 1 makes the intervals of that many pairs hold
    together (Bonferroni). At least the pilot, at most `at_most`. One block tells nothing of the noise: `at_most`. One
    treatment needs no more: b. Rows with a value that is not finite are left out. O(b k + log at_most).
    """
    import numpy as np
    from scipy.special import stdtrit

    y = np.asarray(log_values, dtype=float)
    y = y[np.isfinite(y).all(axis=1)]
    blocks, treatments = y.shape
    if treatments < 2:
        return blocks
    if blocks < 2:
        return max(blocks, at_most)
    df = (blocks - 1) * (treatments - 1)
    y = y - y.mean()
    residuals = y - y.mean(axis=0) - y.mean(axis=1, keepdims=True)
    mean_square = float((residuals**2).sum()) / df
    n = np.arange(blocks, max(blocks, at_most) + 1)
    t = stdtrit(np.minimum(df, n - 1), 1 - (1 - confidence) / (2 * comparisons))
    enough = t * np.sqrt(2 * mean_square / n) <= math.log1p(precision)
    return int(n[enough][0]) if enough.any() else int(n[-1])


def blocks_to_decide(
    difference: float, sd: float, blocks: int, *, margin: float, confidence: float = 0.95, comparisons: int = 1
) -> int | None:
    """Further blocks that settle a verdict with 80 % probability if `difference` and `sd` are the true ones.

    `difference` and `sd`: mean and standard deviation of the within-block differences of logs. Settled means either
    that the interval (Bonferroni over `comparisons`) excludes no difference or that the interval of the equivalence
    test at level 1 - `confidence` lies within +-ln(1 + `margin`). None when a million blocks would not do, or when
    the noise is unknown. O(1): a search on three or four small grids.
    """
    import numpy as np
    from scipy.special import stdtr, stdtrit

    if not (math.isfinite(difference) and math.isfinite(sd)) or blocks < 2:
        return None
    if sd <= 0:
        return 1
    alpha, limit, effect = 1 - confidence, math.log1p(margin), abs(difference)

    def settled(n: np.ndarray) -> np.ndarray:
        df, scale = n - 1, np.sqrt(n) / sd
        differs = stdtr(df, effect * scale - stdtrit(df, 1 - alpha / (2 * comparisons)))
        t = stdtrit(df, 1 - alpha)
        equals = stdtr(df, (limit - effect) * scale - t) + stdtr(df, (limit + effect) * scale - t) - 1
        return np.maximum(differs, equals) >= PLANNED_POWER

    if not settled(np.array([_MOST]))[0]:
        return None
    low, high, steps = blocks, _MOST, np.linspace(0, 1, 24)
    while high - low > 1:  # `high` settles it, `low` does not; each round shrinks high/low to its 23rd root
        n = np.rint((low + 1) * (high / (low + 1)) ** steps).astype(int)
        first = int(settled(n).argmax())
        low, high = (int(n[first - 1]) if first else low), int(n[first])
    return high - blocks


def expected_duration(block_seconds: Sequence[float], blocks: int) -> float:
    """Seconds that `blocks` further blocks of a workload will take, from the durations of those done; 0 without any."""
    return blocks * sum(block_seconds) / len(block_seconds) if block_seconds else 0.0

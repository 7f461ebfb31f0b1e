# SPDX-License-Identifier: Apache-2.0
"""Looks, fixed beforehand: numbers of blocks after which an allocator that is settled on a program is released there.

A look sees effects, so it must be strict. Haybittle (1971) and Peto (1976): if every look before the last asks for
p < 0.001, the last one may test at its full level, and intervals keep their coverage. docs/measured/method.md gives the rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

_GROWTH = 1.5  # of the number of blocks from look to look: a pair runs at most half as long again as it had to
# The mean over programs shall be known to the wanted precision too. Every program gives its share of that, whatever is
# settled; and of a few programs none is left before it is known to twice the wanted precision.
_LEAST_SHARE = 2.0


def looks_from(pilot: int, most: int) -> tuple[int, ...]:
    """Numbers of blocks at which to look: the pilot, then half as many again each time, below `most`. O(log most)."""
    looks = [pilot]
    while (following := math.ceil(looks[-1] * _GROWTH)) < most:
        looks.append(following)
    return tuple(looks)


def share_of_precision(precision: float, programs: int) -> float:
    """The half-width that each of `programs` programs must reach for their mean to reach `precision`."""
    return precision * max(math.sqrt(programs), _LEAST_SHARE)


def settled(
    log_values: ArrayLike,
    others: Sequence[int],
    *,
    base: int,
    margin: float,
    family: int,
    levels: tuple[float, float],
    confidence: float = 0.95,
) -> NDArray[np.bool_]:
    """Which of the columns `others` are settled against the column `base` at a look.

    `log_values`: complete blocks x treatments, ln of the response; rows with a value that is not finite are left out.
    `levels`: of the look, for a difference (all of `family` comparisons together) and for equivalence within `margin`
    (one-sided, each pair). The noise is the pair's own or the block model's, whichever is larger. What is settled here
    also has a verdict by the rules of a report at `confidence`, whether that pools the noise or not. O(b k).
    """
    import numpy as np
    from scipy.special import stdtrit

    y = np.asarray(log_values, dtype=float)
    y = y[np.isfinite(y).all(axis=1)] if y.ndim == 2 else y
    if len(y) < 2 or not others:
        return np.zeros(len(others), dtype=bool)
    blocks, labels = y.shape
    differences = y[:, list(others)] - y[:, [base]]
    effect, own = np.abs(differences.mean(axis=0)), differences.std(axis=0, ddof=1) / math.sqrt(blocks)
    centred = y - y.mean()
    residuals = centred - centred.mean(axis=0) - centred.mean(axis=1, keepdims=True)
    df = (blocks - 1) * (labels - 1)
    error = np.maximum(own, math.sqrt(2 * float((residuals**2).sum()) / df / blocks))
    alpha, limit, (different, equal) = 1 - confidence, math.log1p(margin), levels

    def beyond(level: float, strict: float) -> NDArray[np.float64]:
        """What an effect must exceed at one-sided `level` by its own noise and at `strict` by the larger one."""
        return np.maximum(stdtrit(blocks - 1, 1 - level) * own, stdtrit(df, 1 - strict) * error)

    same = effect + beyond(alpha, equal) <= limit
    differs = effect > beyond(alpha / (2 * family), different / (2 * family))
    return same | differs

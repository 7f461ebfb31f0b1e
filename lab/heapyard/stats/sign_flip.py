# SPDX-License-Identifier: Apache-2.0
"""The sign-flip permutation test: of equal treatments, each within-block difference could as well be its negative.

Fisher, The Design of Experiments (1935), section 21. It assumes that the differences are symmetric, which shuffled
blocks of equal treatments make them, and nothing of their law; beside it stands the interval of `robust`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

_EXACT_UP_TO = 14  # blocks: 16384 patterns of signs
_DRAWS = 20_000
_TIE = 1e-9  # relative: sums that are equal but for rounding are ties


def sign_flip_p(differences: ArrayLike, *, seed: int = 0) -> float:
    """Two-sided p of the mean difference: share of sign patterns with a mean at least as far from nought.

    Exact up to 14 blocks, so never below 2^(1-b); beyond, 20,000 random patterns and the observed one, so never nought
    (Phipson and Smyth 2010). 1 without differences. O(patterns x blocks).
    """
    d = np.asarray(differences, dtype=float)
    seen = abs(float(d.sum())) * (1 - _TIE)
    if len(d) == 0 or not d.any():
        return 1.0
    if len(d) <= _EXACT_UP_TO:
        # One sign can stay fixed: a pattern and its opposite have the same distance from nought.
        bits = np.arange(2 ** (len(d) - 1))[:, None] >> np.arange(len(d) - 1) & 1
        sums = d[0] + (1 - 2 * bits) @ d[1:]
        return float((np.abs(sums) >= seen).mean())
    signs = np.random.default_rng(seed).integers(0, 2, (_DRAWS, len(d)), dtype=np.int8) * 2 - 1
    return float(((np.abs(signs @ d) >= seen).sum() + 1) / (_DRAWS + 1))

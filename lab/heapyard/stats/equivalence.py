# SPDX-License-Identifier: Apache-2.0
"""Two one-sided tests: are two treatments shown to differ by less than a margin? (Schuirmann 1987).

Verdicts use the interval form (`verdict`: the 90 % interval lies within the margin); this is its p-value, for tables.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .block_model import ROUNDING
from .quantiles import t_two_sided


def equivalence_p(differences: ArrayLike, margin: float) -> float:
    """The larger of the two one-sided p-values for within-block differences of logs and a `margin` as ratio minus one.

    The margin runs from 1/(1+margin) to 1+margin. Below alpha exactly when the interval at confidence 1 - 2 alpha lies
    within it. 1 with fewer than two blocks. O(blocks).
    """
    d = np.asarray(differences, dtype=float)
    if len(d) < 2:
        return 1.0
    error = float(d.std(ddof=1)) / math.sqrt(len(d))
    room = math.log1p(margin) - abs(float(d.mean()))  # the nearer bound decides
    if error < ROUNDING:
        return 0.0 if room > 0 else 1.0
    half = float(t_two_sided(room / error, len(d) - 1)) / 2
    return half if room > 0 else 1 - half

# SPDX-License-Identifier: Apache-2.0
"""A race of settings: at looks that are fixed beforehand, what is beaten in time or memory leaves, and the rest goes on.

After F-race (Birattari et al., GECCO 2002; Lopez-Ibanez et al., "The irace package", Operations Research Perspectives 3, 2016),
with paired t-tests in its place of ranks and with two responses: only what is worse in one and no better in the other is
beaten, so a front is left and not a single winner. Errors here cost a good setting, never a false claim: claims come from
blocks that the race has not seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

LEVEL = 0.01  # of a look, one-sided, shared among an entrant's rivals: that one is beaten
SAME = 0.05  # of a look, one-sided, for each entrant: that it is the same as the default


def beaten(responses: Sequence[ArrayLike], margins: Sequence[float]) -> list[bool]:
    """Which entrants leave. The first is the default, which never does.

    `responses`: per response ln of it, complete blocks x entrants, lower being better. An entrant leaves when a rival is shown
    to be better in one response, by half the margin at least, and a gain of the margin in another is excluded. It also leaves
    when it is shown to be the same as the default within the margin in every response. With fewer than two blocks nobody
    leaves. O(responses b k^2).
    """
    import numpy as np

    looked = [y for y in map(np.asarray, responses) if y.ndim == 2]
    entrants = max((y.shape[1] for y in looked), default=0)
    if len(looked) < len(responses) or min(map(len, looked)) < 2 or entrants < 2:
        return [False] * entrants
    limits = [math.log1p(margin) for margin in margins]
    behind = [_behind(y) for y in looked]
    out = [False] * entrants
    for one in range(1, entrants):
        same = all(abs(b.mean[one, 0]) + b.half(SAME)[one, 0] <= limit for b, limit in zip(behind, limits, strict=True))
        out[one] = same or any(_loses(behind, limits, one, rival) for rival in range(entrants) if rival != one)
    return out


@dataclass(frozen=True, slots=True)
class _Behind:
    """Of a response: by how much each entrant is behind each rival, and the standard errors."""

    mean: NDArray[np.float64]
    error: NDArray[np.float64]
    df: int

    def half(self, level: float) -> NDArray[np.float64]:
        from scipy.special import stdtrit

        return float(stdtrit(self.df, 1 - level)) * self.error


def _behind(y: NDArray[np.float64]) -> _Behind:
    """The noise is a pair's own or the block model's, whichever is larger: of few blocks a pair may look quiet by luck."""
    import numpy as np

    blocks, entrants = y.shape
    differences = y[:, :, None] - y[:, None, :]
    own = differences.std(axis=0, ddof=1) / math.sqrt(blocks)
    centred = y - y.mean()
    residuals = centred - centred.mean(axis=0) - centred.mean(axis=1, keepdims=True)
    df = (blocks - 1) * (entrants - 1)
    error = np.maximum(own, math.sqrt(2 * float((residuals**2).sum()) / df / blocks))
    return _Behind(differences.mean(axis=0), error, df)


def _loses(behind: Sequence[_Behind], limits: Sequence[float], one: int, rival: int) -> bool:
    level = LEVEL / (len(behind[0].mean) - 1)
    worse = any(
        b.mean[one, rival] > max(b.half(level)[one, rival], limit / 2) for b, limit in zip(behind, limits, strict=True)
    )
    return worse and all(b.mean[one, rival] - b.half(SAME)[one, rival] > -limit for b, limit in zip(behind, limits, strict=True))

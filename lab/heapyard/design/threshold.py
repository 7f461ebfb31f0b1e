# SPDX-License-Identifier: Apache-2.0
"""The rate at which a server just keeps its limits, from trials at several rates: a posterior on the log rate.

A trial at log rate x shows an excess z (model/limits.py), which grows with the rate and is 0 at the limit. Near the threshold t

    z = slope * (x - t) + slope * scatter * N(0, 1).

Only the stretch LOW < z < HIGH is taken at its value, since further off no line fits the curve of a queue. What lies beyond
is known to lie beyond, and no more: this is Tobit regression (1958). Where every trial lies beyond, as when latencies leap
from well below to far above, it is the probit model of a psychometric function. A share LAPSE of the trials tells nothing.

The prior is flat in log rate, log slope and log scatter, on a grid. Libraries for psychometric curves (questplus, AEPsych)
stop at yes and no, which makes wider intervals where latencies grow smoothly. statsmodels has no Tobit model, and its probit
has no fit where a step separates yes from no. tests/lab/test_capacity_coverage.py holds the quantiles to the truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..model.limits import Shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOW, HIGH = -1.0, 0.5  # from half the limit to twice the limit
LAPSE = 0.02
ROOM = math.log(8.0)  # beyond the rates that were tried, where the threshold is looked for
SCATTERS = (0.004, 0.5, 12)  # of the threshold between trials, on the log rate: lowest, highest, number
SLOPES = (0.4, 60.0, 12)  # of the excess over the log rate
_TURNS = 3  # refinements of the grid
_EVEN, _AT_QUANTILES = 40, 29


@dataclass(frozen=True, slots=True)
class Threshold:
    """The distribution function `share` at ascending log rates `at`."""

    at: NDArray
    share: NDArray

    def quantile(self, share: float) -> float:
        """A log rate. O(log grid)."""
        import numpy as np

        return float(np.interp(share, self.share, self.at))

    def interval(self, confidence: float) -> tuple[float, float, float]:
        """(median, low, high) on the log rate; as much lies below as above."""
        return self.quantile(0.5), self.quantile((1 - confidence) / 2), self.quantile((1 + confidence) / 2)


def threshold(trials: Sequence[Shown]) -> Threshold:
    """What the trials say of it; at least one. O(trials x grid): some ten milliseconds for forty."""
    import numpy as np

    rates = np.log([t.rate for t in trials])
    at = np.unique(np.concatenate([np.linspace(rates.min() - ROOM, rates.max() + ROOM, _EVEN), rates]))
    share = _distribution(at, trials)
    for _ in range(_TURNS):
        # Finer where it is steep, and wide enough for tails.
        where = np.concatenate([[0.0005, 0.002], np.linspace(0.01, 0.99, _AT_QUANTILES), [0.998, 0.9995]])
        steep = np.interp(where, share, at)
        span = steep[-1] - steep[0]
        at = np.unique(np.concatenate([steep, np.linspace(steep[0] - span / 2, steep[-1] + span / 2, _EVEN // 2)]))
        share = _distribution(at, trials)
    return Threshold(at, share)


def _distribution(at: NDArray, trials: Sequence[Shown]) -> NDArray:
    """Of the threshold, at each of `at`; the density is linear between them."""
    import numpy as np

    logs = _log_likelihood(at, trials)
    density = np.exp(logs - logs.max()).sum(axis=(1, 2))
    total = np.concatenate([[0.0], np.cumsum(np.diff(at) * (density[1:] + density[:-1]) / 2)])
    return total / total[-1]


def _log_likelihood(at: NDArray, trials: Sequence[Shown]) -> NDArray:
    """at x scatters x slopes."""
    import numpy as np
    from scipy.special import ndtr

    scatters, slopes = np.geomspace(*SCATTERS)[:, None], np.geomspace(*SLOPES)[None, :]
    sigma = scatters * slopes
    found = np.zeros((len(at), *sigma.shape))
    for trial in trials:
        mean = slopes * (math.log(trial.rate) - at)[:, None, None]
        if trial.excess >= HIGH:
            p = ndtr((mean - HIGH) / sigma)
        elif trial.excess <= LOW:
            p = ndtr((LOW - mean) / sigma)
        else:
            p = np.exp(-0.5 * ((trial.excess - mean) / sigma) ** 2) / (math.sqrt(2 * math.pi) * sigma)
        # A lapse is anywhere: above, below, or somewhere between, a third each.
        lapsed = 1 / 3 if not LOW < trial.excess < HIGH else 1 / 3 / (HIGH - LOW)
        found += np.log((1 - LAPSE) * p + LAPSE * lapsed)
    return found


def log_ratio(of: Threshold, to: Threshold, confidence: float) -> tuple[float, float, float]:
    """(median, low, high) of the difference of two independent thresholds on the log rate. O(points^2)."""
    import numpy as np

    # The middles of so many equal shares stand for each; their differences are equally likely.
    middles = (np.arange(_POINTS) + 0.5) / _POINTS
    first, second = (np.interp(middles, t.share, t.at) for t in (of, to))
    differences = (first[:, None] - second[None, :]).ravel()
    low, high = (1 - confidence) / 2, (1 + confidence) / 2
    middle, lower, upper = np.quantile(differences, [0.5, low, high])
    return float(middle), float(lower), float(upper)


_POINTS = 400

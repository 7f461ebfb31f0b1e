# SPDX-License-Identifier: Apache-2.0
"""Claims about how a response grows with a number: constant, logarithmic, linear, n log n, quadratic.

Each form is fitted as a + b f(n) to the geometric means of the levels by least squares of relative errors. How far a
form is off is uncertain where rounds scatter: its deviation at each level gets a t-interval from the jackknife over
rounds (Efron and Tibshirani 1993, chapter 11). Forms are ranked by AICc (Burnham and Anderson 2002, section 2.4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.analysis import Interval
from ...model.claim import Claim
from ...model.figure import is_number
from ..block_model import ROUNDING, fit
from .part import Part, Selected, shown
from ..growth_forms import FORMS
from ..quantiles import t_quantile

Array = NDArray[np.float64]

# Deviation of the level means from the fitted form, as a share, up to which an engineer would say "it is of that form",
# and from which on nobody would. Where the response grows less than twofold, shares of its growth: every form is close
# to a nearly constant one.
CLOSE, FAR = 0.10, 0.25
LEAST_GROWTH = 1.1  # over the whole range: less is no growth
CLEARLY_WORSE = 10.0  # AICc units behind the best form: no support (Burnham and Anderson 2002, section 2.6)
LEAST_LEVELS = 4
_LARGEST = 1e100  # level: its square is a double
_REACH = 300.0  # of logs about their mean: the ratio of any two means is a double


def grows_like(claim: Claim, selected: Selected, treatment: str) -> list[Part]:
    """The claimed form a + b f(n) against the level means and against the other forms.

    It holds when the response is shown to grow by more than LEAST_GROWTH and to deviate from the form by at most CLOSE
    at every level, and no other form is better by AICc unless the deviation is within the metric's margin. It does not
    hold when some level is shown to deviate by more than FAR, or by more than CLOSE with another form clearly ahead, or
    the response is shown not to grow. `constant` asks for closeness only. O(rounds^2 x levels).
    """
    levels, y, parts = selected.levels(treatment)
    if len(y) < 2 or len(levels) < LEAST_LEVELS or not all(is_number(x) and 0 <= float(x) <= _LARGEST for x in levels):
        need = f"needs {LEAST_LEVELS} levels of {claim.over} that are numbers, and two rounds"
        return [*parts, Part("cannot tell", need)]
    n = np.array([float(level) for level in levels])
    family = len(selected.treatments) * (len(levels) + 1)  # a deviation at each level, and the growth
    one_sided = t_quantile(selected.confidence, len(y) - 1)
    corrected = t_quantile(1 - (1 - selected.confidence) / (2 * family), len(y) - 1)
    off = _jackknife(lambda some: _deviation(FORMS[claim.form](n), some), y)
    growth = _jackknife(lambda some: some.mean(axis=0)[[-1]] - some.mean(axis=0)[[0]], y)
    grown = math.exp(min(float(growth.value[0]), 700.0))
    share = 1.0 if claim.form == "constant" else min(1.0, max(0.0, grown - 1))
    close, far = CLOSE * share, FAR * share
    ranking = sorted((_aicc(f(n), y), form) for form, f in FORMS.items())
    behind = next(a for a, form in ranking if form == claim.form) - ranking[0][0]
    largest, least = float(off.farthest(one_sided).max()), float(off.nearest(corrected).max())
    trend = f"{_slope(n, y, selected.confidence)}{_growth(growth, len(y), selected.confidence)}"
    told = f"{trend} from {claim.over} {levels[0]} to {levels[-1]}; {_closeness(claim, levels, off, largest, ranking)}"
    weight = float(np.abs(off.value).max())
    if claim.form != "constant" and growth.high(corrected)[0] < math.log(LEAST_GROWTH):
        return [*parts, Part("does not hold", told, weight)]
    if least > far or (least > close and behind > CLEARLY_WORSE):
        return [*parts, Part("does not hold", told, weight)]
    grows = claim.form == "constant" or growth.low(one_sided)[0] > math.log(LEAST_GROWTH)
    preferred = claim.form in ("constant", ranking[0][1]) or largest <= selected.margin * share
    if grows and preferred and largest <= close:
        return [*parts, Part("holds", told, -weight)]
    return [*parts, Part("cannot tell", told, weight)]


@dataclass(frozen=True, slots=True)
class _Estimate:
    """Values with their standard errors."""

    value: Array
    error: Array

    def low(self, critical: float) -> Array:
        return self.value - critical * self.error

    def high(self, critical: float) -> Array:
        return self.value + critical * self.error

    def farthest(self, critical: float) -> Array:
        """The largest absolute value that each interval allows for."""
        return np.abs(self.value) + critical * self.error

    def nearest(self, critical: float) -> Array:
        """The smallest absolute value that each interval allows for, if not 0; negative otherwise."""
        return np.abs(self.value) - critical * self.error


def _jackknife(statistic: Callable[[Array], Array], y: Array) -> _Estimate:
    """A statistic of rounds x levels with its standard error from leaving out one round at a time."""
    value = statistic(y)
    without = np.array([statistic(np.delete(y, r, axis=0)) for r in range(len(y))])
    error = np.sqrt((len(y) - 1) / len(y) * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    return _Estimate(value, np.where(error > ROUNDING, error, 0.0))


def _deviation(f: Array, y: Array) -> Array:
    """Fitted form over level means, minus one."""
    logs = y.mean(axis=0)
    # Relative errors do not depend on a common factor; without it the means stay within the range of doubles.
    means = np.exp(np.clip(logs - logs.mean(), -_REACH, _REACH))
    design = np.stack([np.ones_like(f), f], axis=1) if f.any() else np.ones((len(f), 1))
    scaled = design / means[:, None]
    found, *_ = np.linalg.lstsq(scaled, np.ones_like(means), rcond=None)
    return scaled @ found - 1


def _aicc(f: Array, y: Array) -> float:
    """Of the form with one factor per round: scatter within rounds plus the form's lack of fit."""
    rounds = len(y)
    rss = max(fit(y).ss_error + rounds * float((_deviation(f, y) ** 2).sum()), 1e-30)
    parameters = (2 if f.any() else 1) + rounds  # form, rounds beyond the first, variance
    return y.size * math.log(rss / y.size) + 2 * parameters * y.size / (y.size - parameters - 1)


def _slope(n: Array, y: Array, confidence: float) -> str:
    """The slope of ln response over ln n, one per round, with its t-interval; "" with fewer than two n above 0."""
    kept = n > 0
    x = np.log(n[kept])
    x = x - x.mean() if len(x) else x
    if len(x) < 2 or not x.any():
        return ""
    slopes = y[:, kept] @ x / (x @ x)
    half = t_quantile((1 + confidence) / 2, len(y) - 1) * float(slopes.std(ddof=1)) / math.sqrt(len(y))
    middle = float(slopes.mean())
    return f"log-log slope {middle:.2f} ({middle - half:.2f} to {middle + half:.2f}), "


def _growth(growth: _Estimate, rounds: int, confidence: float) -> str:
    """The ratio of the last level to the first with its t-interval, as `7.9 (7.5 to 8.3) times`."""
    critical = t_quantile((1 + confidence) / 2, rounds - 1)
    logs = (growth.value[0], growth.low(critical)[0], growth.high(critical)[0])
    return f"{shown(Interval(*(math.exp(max(-700.0, min(float(x), 700.0))) for x in logs)))} times"


def _closeness(
    claim: Claim, levels: list[str], off: _Estimate, largest: float, ranking: list[tuple[float, str]]
) -> str:
    """How far the claimed form is off, seen and allowed for, and its place by AICc."""
    worst = int(np.abs(off.value).argmax())
    (best, name), (second, runner_up) = ranking[:2]
    if name == claim.form:
        order = f"best by AICc, {second - best:.0f} ahead of {runner_up}"
    else:
        order = f"{next(a for a, form in ranking if form == claim.form) - best:.0f} behind {name} by AICc"
    seen = f"{100 * abs(float(off.value[worst])):.1f} % (at {levels[worst]}"
    return f"{claim.form} is off by up to {seen}; {100 * largest:.1f} % are possible) and {order}"

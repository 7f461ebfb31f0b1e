# SPDX-License-Identifier: Apache-2.0
"""How a response grows with a size: log-log slope, and which law of growth the sizes measured speak for.

Each law is a + b f(n), fitted on the log scale, where the errors of times and sizes of memory are alike. Laws are
ranked by AICc; Akaike weights say how the support is shared out (Burnham and Anderson, 2002, sections 2.4 to 2.9). A
study's claim about growth is tested by `claims.growth`: is one law good enough? This asks which one is best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..model.analysis import Estimate
from .design_matrix import Array
from .growth_forms import FORMS
from .quantiles import t_quantile

CANNOT_TELL = "cannot tell"
LEAST_SIZES = 6  # a law has up to three parameters, the variance among them
LEAST_RANGE = 10.0  # largest over smallest size: over less than a decade every smooth curve is nearly straight
ALIKE = 2.0  # AICc units within which two laws are supported alike (Burnham and Anderson, section 2.6)
_EXACT = 1e-12  # of logs: a fit better than this is exact
_STEPS, _HALVINGS = 200, 30  # of the iteration, and of each of its steps


@dataclass(frozen=True, slots=True)
class Law:
    """A fitted law a + b f. `covariance` of (a, b), `sd` and `df` of the residuals of logs; `weight`: of Akaike."""

    name: str
    a: float
    b: float
    aicc: float
    weight: float
    sd: float
    df: int
    covariance: Array

    def predict(self, f: ArrayLike, *, confidence: float = 0.95) -> tuple[Array, Array, Array]:
        """(middle, low, high) for a new measurement at each value of f(n); NaN where the law is not positive.

        Outside the sizes measured the interval holds only if the law does.
        """
        x = np.asarray(f, dtype=float)
        middle = self.a + self.b * x
        middle = np.where(middle > 0, middle, math.nan)
        slope = np.stack([np.ones_like(x), x if self.b else np.zeros_like(x)], axis=-1) / middle[..., None]
        variance = self.sd**2 + np.einsum("...i,ij,...j->...", slope, self.covariance, slope)
        half = t_quantile((1 + confidence) / 2, self.df) * np.sqrt(variance)
        return middle, middle * np.exp(-half), middle * np.exp(half)


@dataclass(frozen=True, slots=True)
class Growth:
    """`laws`: best first. `answer`: the name of the best, or CANNOT_TELL with the `reason` in one sentence.

    `slope`: of ln response over ln n with its t-interval; NaN where sizes below or at 0 leave fewer than three.
    """

    laws: tuple[Law, ...]
    slope: Estimate
    answer: str
    reason: str


def growth_of(sizes: ArrayLike, response: ArrayLike, *, confidence: float = 0.95) -> Growth:
    """The laws 1, log n, n, n log n and n^2 for one positive response per size: the geometric mean over its rounds.

    Rounds are averaged beforehand because what makes a size deviate from a law (caches, size classes) is the same in
    all of them. ValueError for a response that is not positive or sizes below 0. O(sizes x iterations).
    """
    n = np.asarray(sizes, dtype=float)
    laws = {name: form(np.maximum(n, 0)) for name, form in FORMS.items()}  # sizes below 0 are refused there
    return compare_laws(n, laws, response, confidence=confidence)


def compare_laws(
    sizes: Array, laws: Mapping[str, Array], response: ArrayLike, *, confidence: float = 0.95
) -> Growth:
    """The laws a + b f for the given values of f at each observation; a law without any f is a constant."""
    y = np.asarray(response, dtype=float)
    if not (np.isfinite(y).all() and (y > 0).all() and np.isfinite(sizes).all() and (sizes >= 0).all()):
        raise ValueError("growth needs positive responses and sizes that are not negative")
    if len(y) < LEAST_SIZES:
        raise ValueError(f"growth needs {LEAST_SIZES} measurements, there are {len(y)}")
    fitted = sorted((_fit(name, f, y) for name, f in laws.items()), key=lambda law: law.aicc)
    shares = np.exp([(fitted[0].aicc - law.aicc) / 2 for law in fitted])
    weighted = [
        Law(law.name, law.a, law.b, law.aicc, float(share), law.sd, law.df, law.covariance)
        for law, share in zip(fitted, shares / shares.sum(), strict=True)
    ]
    reason = _doubt(sizes, weighted)
    return Growth(
        tuple(weighted), _slope(sizes, y, confidence), CANNOT_TELL if reason else weighted[0].name, reason
    )


def _doubt(sizes: Array, laws: Sequence[Law]) -> str:
    """Why no law can be named, "" if one can."""
    positive = sizes[sizes > 0]
    distinct = len(np.unique(sizes))
    if distinct < LEAST_SIZES:
        return f"a law of growth needs {LEAST_SIZES} different sizes, there are {distinct}"
    if float(positive.max() / positive.min()) < LEAST_RANGE:
        return f"the sizes span a factor of {positive.max() / positive.min():.3g}, less than a decade"
    alike = [law.name for law in laws[1:] if law.aicc - laws[0].aicc < ALIKE]
    if alike:
        return f"{' and '.join(alike)} {'is' if len(alike) == 1 else 'are'} supported like {laws[0].name}"
    return ""


def _fit(name: str, f: Array, y: Array) -> Law:
    """Least squares of logs by Gauss and Newton's iteration; steps that would leave the positive laws are halved."""
    logs = np.log(y)
    unit = math.exp(float(logs.mean()))
    reach = float(np.abs(f).max())
    x = f / reach if reach else f
    design = np.stack([np.ones_like(x), x], axis=1) if reach else np.ones((len(x), 1))
    found = _start(design, y / unit)
    rss = _squares(found, design, logs, unit)
    for _ in range(_STEPS):
        middle = design @ found
        jacobian = design / middle[:, None]
        step = np.linalg.lstsq(jacobian, logs - math.log(unit) - np.log(middle), rcond=None)[0]
        halved = (step / 2**i for i in range(_HALVINGS))
        shorter = next((s for s in halved if _squares(found + s, design, logs, unit) < rss), None)
        if shorter is None:
            break
        found = found + shorter
        before, rss = rss, _squares(found, design, logs, unit)
        if before - rss <= 1e-14 * before:
            break
    count, parameters = len(y), design.shape[1]
    df = count - parameters
    variance = rss / df
    jacobian = design / (design @ found)[:, None]
    scale = np.array([unit, unit / reach]) if reach else np.array([unit])
    covariance = np.zeros((2, 2))
    covariance[:parameters, :parameters] = variance * np.linalg.pinv(jacobian.T @ jacobian) * np.outer(scale, scale)
    a, b = (*(found * scale), 0.0)[:2]
    free = parameters + 1
    aicc = count * math.log(max(rss / count, _EXACT**2)) + 2 * free * count / (count - free - 1)
    return Law(name, float(a), float(b), aicc, 0.0, math.sqrt(variance), df, covariance)


def _start(design: Array, y: Array) -> Array:
    """Least squares of relative errors where that is positive throughout, else the constant."""
    found = np.linalg.lstsq(design / y[:, None], np.ones_like(y), rcond=None)[0]
    constant = np.eye(design.shape[1])[0]
    return np.asarray(found) if (design @ found > 0).all() else constant


def _squares(found: Array, design: Array, logs: Array, unit: float) -> float:
    middle = design @ found
    if not (middle > 0).all():
        return math.inf
    return float(((logs - math.log(unit) - np.log(middle)) ** 2).sum())


def _slope(sizes: Array, y: Array, confidence: float) -> Estimate:
    kept = sizes > 0
    if len(np.unique(sizes[kept])) < 3:
        return Estimate(math.nan, math.nan, math.nan)
    x, logs = np.log(sizes[kept]), np.log(y[kept])
    x, logs = x - x.mean(), logs - logs.mean()
    slope = float(x @ logs / (x @ x))
    df = len(x) - 2
    error = math.sqrt(float(((logs - slope * x) ** 2).sum()) / df / float(x @ x))
    half = t_quantile((1 + confidence) / 2, df) * error
    return Estimate(slope, slope - half, slope + half)

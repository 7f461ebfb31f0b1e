"""Claims about how a response grows with a number: constant, logarithmic, linear, n log n, quadratic."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..model.claim import Claim
from ..model.figure import is_number
from .claim_part import Part, Selected

# Largest deviation of the level means from the fitted form, as a share, up to which an engineer would say "it is of
# that form", and from which on nobody would.
CLOSE, FAR = 0.10, 0.25
LEAST_GROWTH = 1.1  # over the whole range: less is no growth
CLEARLY_WORSE = 10.0  # AICc units behind the best form (Burnham and Anderson 2002: no support)

_FORMS = {
    "constant": lambda n: np.zeros_like(n),
    "log": lambda n: np.log(n + 1),
    "linear": lambda n: n,
    "n log n": lambda n: n * np.log(n + 1),
    "quadratic": lambda n: n * n,
}


def grows_like(claim: Claim, selected: Selected, treatment: str) -> list[Part]:
    """The claimed form a + b f(n), b > 0, against the others by AICc of relative errors, and how far it is off.

    It holds when the level means deviate by at most CLOSE from the fitted form and it grows at all; it does not when they
    deviate by more than FAR, or another form is clearly better and this one not close. Rounds are removed first.
    """
    levels, y = selected.levels(treatment)
    if len(y) < 2 or len(levels) < 4 or not all(is_number(level) for level in levels):
        return [Part("cannot tell", f"needs four numeric levels of {claim.over} and two rounds")]
    n = np.array([float(level) for level in levels])
    if (n < 0).any():
        return [Part("cannot tell", f"{claim.over} has negative levels")]
    adjusted = np.exp(y - y.mean(axis=1, keepdims=True) + y.mean())
    fits = {form: _fit(f(n), adjusted) for form, f in _FORMS.items()}
    best = min(fits, key=lambda form: fits[form][0])
    aicc, a, b = fits[claim.form]
    means = np.exp(np.log(adjusted).mean(axis=0))
    deviation = float(np.max(np.abs(np.log(np.maximum(a + b * _FORMS[claim.form](n), 1e-300) / means))))
    growth = means[-1] / means[0]
    behind = aicc - fits[best][0]
    told = (
        f"{claim.form} is off by at most {100 * math.expm1(min(deviation, 50.0)):.1f} %, grows by {growth:.3g} times from "
        f"{claim.over} {levels[0]} to {levels[-1]}; best by AICc: {best}"
        + (f", {behind:.0f} units ahead" if best != claim.form else "")
    )
    if claim.form != "constant" and (growth < LEAST_GROWTH or b <= 0):
        flat = float(np.max(means) / np.min(means)) < LEAST_GROWTH or b <= 0
        return [Part("does not hold" if flat else "cannot tell", told, deviation)]
    if deviation <= math.log1p(CLOSE):
        return [Part("holds", told, -deviation)]
    if deviation > math.log1p(FAR) or behind > CLEARLY_WORSE:
        return [Part("does not hold", told, deviation)]
    return [Part("cannot tell", told, deviation)]


def _fit(f: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float, float]:
    """(AICc, a, b) of a + b f by least squares of relative errors; y: rounds x levels."""
    design = np.stack([np.ones_like(f), f], axis=1) if f.any() else np.ones((len(f), 1))
    weight = 1 / np.exp(np.log(y).mean(axis=0))
    found, *_ = np.linalg.lstsq(design * weight[:, None], np.mean(y, axis=0) * weight, rcond=None)
    residuals = (y - design @ found) * weight
    count, k = y.size, design.shape[1] + 1
    rss = max(float((residuals**2).sum()), 1e-30)
    aicc = count * math.log(rss / count) + 2 * k + 2 * k * (k + 1) / max(count - k - 1, 1)
    return aicc, float(found[0]), float(found[1]) if len(found) > 1 else 0.0

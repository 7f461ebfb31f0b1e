# SPDX-License-Identifier: Apache-2.0
"""The Universal Scalability Law: throughput X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)) of N threads.

Gunther, Guerrilla Capacity Planning (2007), chapter 4: gamma is the throughput of one thread, alpha the share that is
serialised (contention), beta the cost of keeping pairs of threads coherent. Only thread counts that the machine has
processors for say anything of these: beyond, threads take turns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ..model.analysis import Estimate
from .design_matrix import Array
from .quantiles import t_quantile

LEAST_COUNTS = 4  # different thread counts: three parameters, and one more to see whether they fit

Errors = Literal["relative", "absolute"]


@dataclass(frozen=True, slots=True)
class Scalability:
    """`alpha` and `beta` are not negative; the best law within that bound. Intervals come from the fit without the bound,
    extended to the estimate: held at 0, one rate would make the other look surer than it is.

    `errors`: linearised standard errors of gamma, alpha, beta; `residual_sd` of throughput, or of its log. `threads`,
    `throughput` and `fitted`: of the observations that were used.
    """

    gamma: Estimate
    alpha: Estimate
    beta: Estimate
    errors: tuple[float, float, float]
    residual_sd: float
    threads: Array
    throughput: Array
    fitted: Array

    @property
    def peak(self) -> float:
        """The number of threads with the largest throughput; infinite without coherency cost."""
        alpha, beta = self.alpha.value, self.beta.value
        return math.sqrt(max(1 - alpha, 0.0) / beta) if beta > 0 else math.inf

    @property
    def limit(self) -> float:
        """Throughput that contention alone would allow for (Amdahl): gamma / alpha; infinite without contention."""
        return self.gamma.value / self.alpha.value if self.alpha.value > 0 else math.inf

    @property
    def efficiency(self) -> Array:
        """Measured throughput over that of as many independent threads."""
        return self.throughput / (self.gamma.value * self.threads)


def why_not(threads: Sequence[float] | Array, processors: int) -> str:
    """Why no law can be fitted to these thread counts on so many processors, in one sentence; "" if it can."""
    usable = sorted({int(n) for n in threads if n <= processors})
    if len(usable) >= LEAST_COUNTS:
        return ""
    counts = ", ".join(map(str, usable)) or "none"
    return (
        f"a scalability law needs {LEAST_COUNTS} different thread counts up to the machine's {processors} processors; "
        f"measured there: {counts}"
    )


def fit_scalability(
    threads: ArrayLike,
    throughput: ArrayLike,
    *,
    processors: int,
    confidence: float = 0.95,
    errors: Errors = "relative",
) -> Scalability:
    """Least squares over all measurements with at most as many threads as `processors`.

    `errors`: whether deviations count relative to the throughput (as everywhere in this lab) or absolutely (as in the
    literature and R's package usl). Standard errors are linearised, t on the residual degrees of freedom. ValueError
    with the sentence of `why_not`, or for a throughput or thread count that is not positive. O(observations x steps).
    """
    n, x = np.asarray(threads, dtype=float), np.asarray(throughput, dtype=float)
    if not (np.isfinite(x).all() and (x > 0).all() and (n >= 1).all()):
        raise ValueError("a scalability law needs positive throughputs and at least one thread each")
    if reason := why_not(n, processors):
        raise ValueError(reason)
    n, x = n[n <= processors], x[n <= processors]
    best = whole = _fit(n, x, errors, (0, 1, 2))
    if whole.parameters.min() < 0:
        rest = [_fit(n, x, errors, free) for free in ((0, 1), (0, 2), (0,))]
        best = min((fit for fit in rest if fit.parameters.min() >= 0), key=lambda fit: fit.squares)
    half = t_quantile((1 + confidence) / 2, whole.df) * whole.errors
    gamma, alpha, beta = (
        Estimate(float(value), float(max(min(middle - h, value), 0.0)), float(max(middle + h, value)))
        for value, middle, h in zip(best.parameters, whole.parameters, half, strict=True)
    )
    spread = (float(whole.errors[0]), float(whole.errors[1]), float(whole.errors[2]))
    return Scalability(gamma, alpha, beta, spread, math.sqrt(best.squares / best.df), n, x, _law(best.parameters, n))


@dataclass(frozen=True, slots=True)
class _Fit:
    """gamma, alpha and beta, of which some may be held at 0, and the errors of the others."""

    parameters: Array
    errors: Array
    squares: float
    df: int


def _law(parameters: Array, n: Array) -> Array:
    gamma, alpha, beta = parameters
    return gamma * n / (1 + alpha * (n - 1) + beta * n * (n - 1))


def _residuals(parameters: Array, n: Array, x: Array, errors: Errors) -> Array:
    fitted = _law(parameters, n)
    if errors == "absolute":
        return x - fitted
    return np.log(x / np.where(fitted > 0, fitted, 1e-300))


def _fit(n: Array, x: Array, errors: Errors, free: tuple[int, ...]) -> _Fit:
    """Levenberg and Marquardt's method from a start that needs none: n / X(n) is linear in 1/gamma, alpha/gamma and
    beta/gamma. The Jacobian is that of the fitted law in closed form."""
    from scipy.optimize import least_squares

    some = list(free)
    design = np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1)
    start = np.linalg.lstsq((design * (x / n)[:, None])[:, some], np.ones_like(n), rcond=None)[0]
    unit = 1 / start[0] if start[0] > 0 else float((x / n).max())

    def spread_out(p: Array) -> Array:
        """All three parameters in their units from the free ones, gamma in multiples of the start."""
        whole = np.zeros(3)
        whole[some] = p
        whole[0] *= unit
        return whole

    def jacobian(p: Array) -> Array:
        parameters = spread_out(p)
        slope = -design / (design @ [1, *parameters[1:]])[:, None]  # of ln X
        slope[:, 0] = unit / parameters[0]
        return -((slope if errors == "relative" else slope * _law(parameters, n)[:, None])[:, some])

    first = np.array([1.0, *(start[1:] * unit)])
    if (design @ [1, *spread_out(first)[1:]] <= 0).any():
        first[1:] = np.maximum(first[1:], 0)
    found = least_squares(
        lambda p: _residuals(spread_out(p), n, x, errors), first, jac=jacobian, method="lm",
        xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=2000,
    )
    squares, df = 2 * float(found.cost), len(n) - len(free)
    slope = jacobian(found.x)
    variances = squares / df * np.diag(np.linalg.inv(slope.T @ slope))
    return _Fit(spread_out(found.x), spread_out(np.sqrt(variances)), squares, df)

# SPDX-License-Identifier: Apache-2.0
"""What all trials of a search together say of every choice, measured or not: a Gaussian process over levels.

A trial is ln y = block + f(choice) + error. f is a sum of independent parts: one for each level of each setting, one for each
pair of levels, one for the choice as a whole. Their variances come from the data, so that a noisy machine leans on what many
choices share, and a quiet one believes each choice what was measured of it. (Rasmussen and Williams, Gaussian Processes for
Machine Learning, 2006, sections 2.2 and 5.4; Qian, Wu and Wu, Technometrics 50, 2008, for levels without an order.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.tuning import Choice, Space
from .responses import Response

Measured = Sequence[tuple[Sequence[Choice], Response]]  # of each phase: the choices, and a column of the response for each

# What settings usually do, as standard deviations of ln y: all levels of a choice, all its pairs, the rest. The data may differ
# from it by a factor of e or e^2 without much ado.
_USUAL = (0.03, 0.01, 0.005)
_LEAST_NOISE = 1e-8  # variance


@dataclass(frozen=True, slots=True)
class Surface:
    """ln ratios to the default. `known`: the choices that were measured. `noise`: variance of a trial within its block;
    `variances`: of the three parts of f."""

    space: Space
    known: tuple[Choice, ...]
    noise: float
    variances: NDArray[np.float64]
    _weights: NDArray[np.float64]
    _precision: NDArray[np.float64]

    def gains(self, choices: Sequence[Choice]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and covariance of ln ratio to the default, for each of `choices`. O(choices x known^2 + choices^2)."""
        asked = [self.space.default, *choices]
        cross = _covariance(self.variances, asked, self.known)
        mean = cross @ self._weights
        spread = _covariance(self.variances, asked, asked) - cross @ self._precision @ cross.T
        apart = spread[1:, 1:] - spread[1:, :1] - spread[:1, 1:] + spread[0, 0]
        return mean[1:] - mean[0], apart


def fit_surface(space: Space, measured: Measured) -> Surface:
    """The most likely variances, with what is usual as a weak prior. O(trials + iterations x choices^3)."""
    from scipy.optimize import minimize

    known = tuple(dict.fromkeys([space.default, *(choice for choices, _ in measured for choice in choices)]))
    sums = _sums(known, measured)
    noise = max(sums.square / max(sums.freedom, 1), _LEAST_NOISE)
    usual = np.log([noise, *(s**2 for s in _USUAL)])
    parts = _parts(known, known)

    def badness(logs: NDArray[np.float64]) -> float:
        variance, within, spread, weights = _solved(logs, parts, sums)
        _, size = np.linalg.slogdet(within)
        fit = (sums.square - float(sums.totals @ spread @ weights)) / variance
        return 0.5 * (sums.freedom * logs[0] + size + fit) + 0.125 * float(((logs - usual) ** 2).sum())

    found = minimize(badness, usual, method="L-BFGS-B", bounds=[(v - 9, v + 9) for v in usual]).x
    variance, within, _, weights = _solved(found, parts, sums)
    precision = np.asarray(np.linalg.solve(within, sums.information / variance), dtype=np.float64)
    return Surface(space, known, variance, np.exp(found[1:]), weights, precision)


@dataclass(frozen=True, slots=True)
class _Sums:
    """All that the trials say once block means are taken out: information matrix and totals of the choices, sum of squares."""

    information: NDArray[np.float64]
    totals: NDArray[np.float64]
    square: float
    freedom: int


def _sums(known: Sequence[Choice], measured: Measured) -> _Sums:
    place = {choice: at for at, choice in enumerate(known)}
    information, totals, square, freedom = np.zeros((len(known), len(known))), np.zeros(len(known)), 0.0, 0
    for choices, response in measured:
        columns = np.array([place[choice] for choice in choices])
        for row in response.logs:
            there = np.isfinite(row)
            if (count := int(there.sum())) < 2:
                continue
            centred, at = row[there] - row[there].mean(), columns[there]
            information[at, at] += 1
            information[np.ix_(at, at)] -= 1 / count
            totals[at] += centred
            square += float(centred @ centred)
            freedom += count - 1
    return _Sums(information, totals, square, freedom)


def _solved(
    logs: NDArray[np.float64], parts: Sequence[NDArray[np.float64]], sums: _Sums
) -> tuple[float, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Noise; I + information x covariance / noise; the covariance; and the weights that it is multiplied by for the mean."""
    variance, *shares = np.exp(logs)
    spread = sum((share * part for share, part in zip(shares, parts, strict=True)), np.zeros_like(parts[0]))
    within = np.eye(len(spread)) + sums.information @ spread / variance
    return float(variance), within, spread, np.linalg.solve(within, sums.totals / variance)


def _covariance(variances: NDArray[np.float64], ones: Sequence[Choice], others: Sequence[Choice]) -> NDArray[np.float64]:
    parts = _parts(ones, others)
    return sum((v * part for v, part in zip(variances, parts, strict=True)), np.zeros_like(parts[0]))


def _parts(ones: Sequence[Choice], others: Sequence[Choice]) -> tuple[NDArray[np.float64], ...]:
    """Shares of levels, and of pairs of levels, that two choices have in common; and whether they are the same."""
    same = (np.array(ones)[:, None, :] == np.array(others)[None, :, :]).sum(axis=2, dtype=float)
    settings = len(ones[0])
    return same / settings, same * (same - 1) / max(settings * (settings - 1), 1), (same == settings).astype(float)

# SPDX-License-Identifier: Apache-2.0
"""Linear models of a log response over categorical factors and blocks, unbalanced ones too.

A study in which every cell was measured in every block is balanced, and `factorial.analyse_factorial` does it in a
tenth of the time; this is for the others: failed trials, chosen interactions, factors that are not fully crossed.
Sums of squares are of type II: a term beyond all others that do not contain it (Langsrud, Statistics and Computing 13,
2003). Numerical care as NIST's certified data sets ask for: the responses are centred before anything is squared.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .block_model import cv_of
from .design_matrix import Array, Design, Term, design_matrix
from .factorial import Source, source_of

_DEPENDENT = 1e-9  # share of its length below which what is left of a column is rounding


@dataclass(frozen=True, slots=True)
class LinearFit:
    """The fitted model. `leverages`: how far each observation draws its own fitted value, from 0 to 1.

    `triangle` and `rotated`: R and Q'y of the factorisation, all that sums of squares need. `root`: with G its product
    with its own transpose, mean_square * G is the covariance of the coefficients (a generalised inverse where cells are
    empty).
    """

    y: Array
    design: Design
    centre: float
    coefficients: Array  # of y - centre
    residuals: Array
    leverages: Array
    rank: int
    triangle: Array
    rotated: Array
    root: Array

    @property
    def error_df(self) -> int:
        return len(self.y) - self.rank

    @property
    def error_sum_of_squares(self) -> float:
        return float((self.residuals**2).sum())

    @property
    def mean_square(self) -> float:
        """Residual mean square, the variance of one trial; NaN without degrees of freedom."""
        return self.error_sum_of_squares / self.error_df if self.error_df else math.nan

    @property
    def residual_sd(self) -> float:
        return math.sqrt(self.mean_square)

    @property
    def residual_cv(self) -> float:
        """Coefficient of variation of one trial of a response whose log is `y`."""
        return cv_of(self.mean_square)

    @property
    def r_squared(self) -> float:
        """Share of the variation about the mean that the model explains; NaN where nothing varies."""
        total = float(((self.y - self.y.mean()) ** 2).sum())
        return 1 - self.error_sum_of_squares / total if total else math.nan

    def estimable(self, row: Array) -> bool:
        """Do the data determine the combination `row` of coefficients? Not where it rests on empty cells."""
        kept = self.root @ (self.root.T @ (self.triangle.T @ (self.triangle @ row)))
        return bool(np.abs(kept - row).max() < 1e-6)


def fit_linear(y: ArrayLike, factors: Mapping[str, Sequence[Hashable]], terms: Sequence[Term]) -> LinearFit:
    """Least squares of `y` on the grand mean and `terms`; blocks are a factor with a main effect.

    ValueError for a design that estimates nothing: see `design_matrix`; values that are not finite; fewer observations
    than parameters. O(observations x columns^2).
    """
    values = np.asarray(y, dtype=float)
    if not np.isfinite(values).all():
        raise ValueError("a response is not a finite number")
    design = design_matrix(factors, terms)
    if len(design.columns) != len(values):
        raise ValueError(f"{len(values)} responses for {len(design.columns)} observations")
    if len(values) < 2:
        raise ValueError("one observation leaves nothing to estimate the error from")
    centre = float(values.mean())
    centred = values - centre
    # Cutting the matrix to its triangle first makes everything that follows independent of the number of observations.
    q, r = np.linalg.qr(design.columns)
    rotated = q.T @ centred
    u, s, vt = np.linalg.svd(r)
    rank = int((s > _DEPENDENT * s[0]).sum())
    if len(values) < design.columns.shape[1] and rank == len(values):
        raise ValueError(f"{design.columns.shape[1]} parameters from {len(values)} trials")
    root = vt[:rank].T / s[:rank]
    basis = q @ u[:, :rank]
    residuals = centred - basis @ (basis.T @ centred)
    residuals = residuals - basis @ (basis.T @ residuals)  # once more, for the digits that cancelled
    residuals[np.abs(residuals) < 32 * np.finfo(float).eps * float(np.abs(values).max())] = 0.0
    leverages = np.minimum((basis**2).sum(axis=1), 1.0)
    coefficients = root @ (u[:, :rank].T @ rotated)
    return LinearFit(values, design, centre, coefficients, residuals, leverages, rank, r, rotated, root)


def analysis_of_variance(fit: LinearFit) -> tuple[Source, ...]:
    """The table, one row per term in the model's order, without the error. Columns that other terms determine (empty
    cells) cost a term its degrees of freedom; with none left, its F and p are NaN. O(terms x columns^3)."""
    return tuple(_row(fit, term) for term in fit.design.terms if term)


def _row(fit: LinearFit, term: Term) -> Source:
    spans = fit.design.spans
    others = [spans[t] for t in spans if not set(term) <= set(t)]
    base = _basis(np.hstack([fit.triangle[:, s] for s in others]), 0.0)
    own = fit.triangle[:, spans[term]]
    longest = float(np.sqrt((own**2).sum(axis=0)).max())
    own = own - base @ (base.T @ own)
    own = _basis(own - base @ (base.T @ own), longest)
    sum_of_squares = float(((own.T @ fit.rotated) ** 2).sum())
    df = own.shape[1]
    return source_of(term, df, sum_of_squares, fit.error_sum_of_squares, fit.error_df, len(fit.y))


def _basis(columns: Array, longest: float) -> Array:
    """Orthonormal columns that span `columns`; what is short beside `longest`, or the longest column, is rounding."""
    from scipy.linalg import qr

    q, r, _ = qr(columns, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(r))
    return q[:, sizes > _DEPENDENT * max(longest, float(sizes[0]))]

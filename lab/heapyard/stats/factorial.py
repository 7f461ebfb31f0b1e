# SPDX-License-Identifier: Apache-2.0
"""Analysis of variance of a replicated full factorial in blocks, all interactions included.

The array of responses is balanced, so effects are differences of marginal means and sums of squares add up exactly
(types I, II and III agree). The blocks have a main effect only: their interactions with the factors are the error.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Term = tuple[int, ...]  # axes of the factors that interact


@dataclass(frozen=True, slots=True)
class Source:
    """One row of the table. `f` and `p` are NaN without degrees of freedom for the error; effect sizes are partial."""

    factors: tuple[str, ...]  # empty for the blocks
    df: int
    sum_of_squares: float
    f: float
    p: float
    eta_squared: float  # share of the variance not explained by the others
    omega_squared: float  # the same without its bias; may be slightly below 0


@dataclass(frozen=True, slots=True)
class Factorial:
    """The fitted model; `residuals` has the shape of `y`: factors in their order, then blocks."""

    names: tuple[str, ...]
    y: NDArray[np.float64]
    sources: tuple[Source, ...]
    error_df: int
    error_sum_of_squares: float
    residuals: NDArray[np.float64]

    @property
    def mean_square(self) -> float:
        """Of the error; NaN without degrees of freedom."""
        return self.error_sum_of_squares / self.error_df if self.error_df else math.nan

    def means(self, axis: int) -> NDArray[np.float64]:
        """Marginal means of one factor."""
        return self.y.mean(axis=tuple(i for i in range(self.y.ndim) if i != axis))


def analyse_factorial(y: NDArray[np.float64], names: Sequence[str]) -> Factorial:
    """Fit a full factorial with every interaction; `y` has one axis per name and a last one of blocks.

    ValueError for a single block or a factor without two levels. O(size of y times 2^factors).
    """
    factors = y.ndim - 1
    if len(names) != factors:
        raise ValueError(f"{len(names)} names for {factors} factors")
    if y.shape[-1] < 2:
        raise ValueError("one block leaves nothing to estimate the error from")
    if min(y.shape[:-1]) < 2:
        raise ValueError(f"factor '{names[int(np.argmin(y.shape[:-1]))]}' has one level only")
    centred = y - y.mean()
    centred = centred - centred.mean()  # of large values even the mean is rounded
    effects: dict[Term, NDArray[np.float64]] = {(): np.zeros((1,) * y.ndim)}
    fitted = np.zeros((1,) * y.ndim)
    found: list[tuple[tuple[str, ...], int, float]] = []
    for term in _terms(factors):
        lower = sum((effects[part] for part in _below(term)), start=np.zeros((1,) * y.ndim))
        effects[term] = _marginal(centred, term) - lower
        fitted = fitted + effects[term]
        df = math.prod(y.shape[axis] - 1 for axis in term)
        found.append((tuple(names[axis] for axis in term), df, _square(effects[term], y.shape)))
    blocks = _marginal(centred, (factors,))
    found.append(((), y.shape[-1] - 1, _square(blocks, y.shape)))
    residuals = centred - fitted - blocks
    residuals[np.abs(residuals) < 32 * np.finfo(float).eps * float(np.abs(y).max())] = 0.0
    error = float((residuals**2).sum())
    error_df = y.size - 1 - sum(df for _, df, _ in found)
    sources = tuple(source_of(*row, error, error_df, y.size) for row in found)
    return Factorial(tuple(names), y, sources, error_df, error, residuals)


def average_ranks(y: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Mean rank of each level of a factor over all cells and blocks, 1 for the least; ties share. O(n log n)."""
    from scipy.stats import rankdata

    lined_up = np.moveaxis(y, axis, 0)
    return rankdata(lined_up.reshape(len(lined_up), -1), axis=0).mean(axis=1)


def _terms(factors: int) -> list[Term]:
    return [t for size in range(1, factors + 1) for t in itertools.combinations(range(factors), size)]


def _below(term: Term) -> list[Term]:
    """Every proper part of a term, the empty one included."""
    return [part for size in range(len(term)) for part in itertools.combinations(term, size)]


def _marginal(y: NDArray[np.float64], kept: Term) -> NDArray[np.float64]:
    return y.mean(axis=tuple(i for i in range(y.ndim) if i not in kept), keepdims=True)


def _square(effect: NDArray[np.float64], shape: tuple[int, ...]) -> float:
    return float((effect**2).sum()) * math.prod(shape) / effect.size


def source_of(
    factors: tuple[str, ...], df: int, sum_of_squares: float, error: float, error_df: int, count: int
) -> Source:
    """A row of the table from its sum of squares and the error's; `count` observations in all."""
    from scipy.special import fdtrc

    if not error_df or not df:
        return Source(factors, df, sum_of_squares, math.nan, math.nan, math.nan, math.nan)
    mean_square = error / error_df
    f = sum_of_squares / df / mean_square if mean_square else (math.inf if sum_of_squares else math.nan)
    p = float(fdtrc(df, error_df, f)) if math.isfinite(f) else (0.0 if f == math.inf else math.nan)
    whole = sum_of_squares + error
    return Source(
        factors,
        df,
        sum_of_squares,
        f,
        p,
        sum_of_squares / whole if whole else math.nan,
        (sum_of_squares - df * mean_square) / (sum_of_squares + (count - df) * mean_square) if whole else math.nan,
    )

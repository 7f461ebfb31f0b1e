# SPDX-License-Identifier: Apache-2.0
"""Estimated marginal means: what each level of a factor would have had, had every cell been measured equally often.

Predictions of the model averaged with equal weights over the levels of all other factors and the blocks (Searle, Speed
and Milliken, The American Statistician 34, 1980). In balanced data they are the plain means; in unbalanced data a plain
mean would mix the factor with whatever it was measured with.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from .design_matrix import Array, Term
from .linear_model import LinearFit
from .quantiles import t_quantile


@dataclass(frozen=True, slots=True)
class MarginalMeans:
    """`levels`: one per mean, a tuple of as many as the term has factors. NaN where empty cells leave it undetermined.

    `covariance` of the means, whose diagonal includes the uncertainty of the grand mean, and `df` of its estimate.
    """

    term: Term
    levels: tuple[tuple[Hashable, ...], ...]
    means: Array
    covariance: Array
    df: int

    def half_widths(self, confidence: float = 0.95) -> Array:
        """Of the t-intervals of the single means; infinite without degrees of freedom."""
        if not self.df:
            return np.full(len(self.means), math.inf)
        return t_quantile((1 + confidence) / 2, self.df) * np.sqrt(np.diag(self.covariance))


def marginal_means(fit: LinearFit, term: Term) -> MarginalMeans:
    """The means of one factor, or of the combinations of several that `term` names. O(levels x columns^2).

    ValueError for a factor that the model does not have.
    """
    for name in term:
        if not any(name in t for t in fit.design.terms):
            raise ValueError(f"the model has no factor '{name}'")
    levels = tuple(itertools.product(*(fit.design.levels[name] for name in term)))
    rows = np.array([fit.design.row(dict(zip(term, level, strict=True))) for level in levels])
    means = fit.centre + rows @ fit.coefficients
    means[[not fit.estimable(row) for row in rows]] = math.nan
    reach = rows @ fit.root
    return MarginalMeans(term, levels, means, fit.mean_square * (reach @ reach.T), fit.error_df)

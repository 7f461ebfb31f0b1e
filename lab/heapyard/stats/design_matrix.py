# SPDX-License-Identifier: Apache-2.0
"""Design matrices of linear models with categorical factors: sum-to-zero coding, interactions as products of columns.

With this coding the coefficients of a term sum to zero over the levels of each of its factors, so a prediction averaged
over the levels of a factor has nought in all columns of that factor (Searle, Linear Models for Unbalanced Data, 1987).
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Term = tuple[str, ...]  # names of the factors that interact; () is the grand mean


@dataclass(frozen=True, slots=True)
class Design:
    """One row per observation. `terms` starts with the grand mean; `spans` names the columns of each."""

    columns: Array
    terms: tuple[Term, ...]
    spans: dict[Term, slice]
    levels: dict[str, tuple[Hashable, ...]]  # in order of appearance

    def row(self, at: Mapping[str, Hashable]) -> Array:
        """The columns' values at given levels, averaged over the levels of every factor that `at` does not name."""
        found = np.zeros(self.columns.shape[1])
        for term, span in self.spans.items():
            if all(name in at for name in term):
                coded = [_coding(len(self.levels[f]))[[self.levels[f].index(at[f])]] for f in term]
                found[span] = _products(coded, 1)[0]
        return found


def crossed(names: Sequence[str], *, order: int | None = None) -> list[Term]:
    """Every main effect and interaction of `names`, of at most `order` factors each; short ones first. O(2^names)."""
    most = len(names) if order is None else order
    return [term for size in range(1, most + 1) for term in itertools.combinations(names, size)]


def design_matrix(factors: Mapping[str, Sequence[Hashable]], terms: Sequence[Term]) -> Design:
    """The matrix of the grand mean and `terms`; `factors` holds one level per observation and factor.

    ValueError where a term names no factor, a factor has a single level, lengths differ, or an interaction stands
    without what it is made of (its coefficients would mean something else). O(observations x columns).
    """
    rows = _rows(factors)
    levels = {name: tuple(dict.fromkeys(values)) for name, values in factors.items()}
    chosen = [(), *dict.fromkeys(terms)]
    for term in chosen[1:]:
        _check(term, chosen, levels)
    coded = {name: _coded(factors[name], levels[name]) for name in {f for term in chosen for f in term}}
    parts = [_products([coded[f] for f in term], rows) for term in chosen]
    edges = np.cumsum([0, *(part.shape[1] for part in parts)])
    spans = {term: slice(int(a), int(b)) for term, a, b in zip(chosen, edges, edges[1:], strict=False)}
    return Design(np.hstack(parts), tuple(chosen), spans, levels)


def _rows(factors: Mapping[str, Sequence[Hashable]]) -> int:
    lengths = {name: len(values) for name, values in factors.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"factors have different numbers of observations: {lengths}")
    return next(iter(lengths.values()), 0)


def _check(term: Term, chosen: Sequence[Term], levels: Mapping[str, tuple[Hashable, ...]]) -> None:
    for name in term:
        if name not in levels:
            raise ValueError(f"there is no factor '{name}'")
        if len(levels[name]) < 2:
            raise ValueError(f"factor '{name}' has one level only")
    for size in range(1, len(term)):
        for part in itertools.combinations(term, size):
            if not any(set(part) == set(other) for other in chosen):
                raise ValueError(f"the model has {' x '.join(term)} but not {' x '.join(part)}")


def _coding(count: int) -> Array:
    """Levels x (levels - 1): the last level is minus the sum of the others."""
    return np.vstack([np.eye(count - 1), -np.ones(count - 1)])


def _coded(values: Sequence[Hashable], levels: tuple[Hashable, ...]) -> Array:
    place = {level: i for i, level in enumerate(levels)}
    return _coding(len(levels))[[place[v] for v in values]]


def _products(parts: Sequence[Array], rows: int) -> Array:
    """Row by row the products of one column of each part; a column of ones for none."""
    made = np.ones((rows, 1))
    for part in parts:
        made = (made[:, :, None] * part[:, None, :]).reshape(rows, -1)
    return made

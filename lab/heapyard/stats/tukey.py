# SPDX-License-Identifier: Apache-2.0
"""All pairs of the means of a model, whatever its factors and however unbalanced: Tukey and Kramer's procedure.

Kramer (Biometrics 12, 1956) takes for each pair the error of its own difference; conservative in unbalanced data
(Hayter, Annals of Statistics 12, 1984). Libraries do this for one-way layouts, whose error is not that of blocks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from .block_model import ROUNDING
from .design_matrix import Array
from .letters import compact_letters
from .marginal_means import MarginalMeans
from .quantiles import tukey_quantile, tukey_sf


@dataclass(frozen=True, slots=True)
class Pair:
    """`difference`: mean of `second` minus that of `first`; limits hold for all pairs together, `p` is adjusted."""

    first: Hashable
    second: Hashable
    difference: float
    low: float
    high: float
    p: float


@dataclass(frozen=True, slots=True)
class AllPairs:
    """`letters`: per label in the order given; `groups`: labels that share a letter, in ascending order of their means.

    Groups may overlap: a label in two of them is distinguishable from neither. Only where none do are they clusters.
    """

    labels: tuple[Hashable, ...]
    means: Array
    pairs: tuple[Pair, ...]
    letters: tuple[str, ...]
    groups: tuple[tuple[Hashable, ...], ...]

    @property
    def are_clusters(self) -> bool:
        return sum(map(len, self.groups)) == len(self.labels)


def all_pairs(found: MarginalMeans, *, confidence: float = 0.95) -> AllPairs:
    """Every pair of marginal means. Means that empty cells leave undetermined are left out. O(k^2)."""
    kept = [i for i, mean in enumerate(found.means) if not math.isnan(mean)]
    means, covariance = found.means[kept], found.covariance[np.ix_(kept, kept)]
    labels = [found.levels[i][0] if len(found.term) == 1 else found.levels[i] for i in kept]
    k = len(labels)
    first, second = np.triu_indices(k, 1)
    difference = means[second] - means[first]
    difference[np.abs(difference) < ROUNDING] = 0.0
    variance = np.maximum(covariance[first, first] + covariance[second, second] - 2 * covariance[first, second], 0)
    unit = np.sqrt(variance / 2)  # the studentized range divides by the error of one mean
    half = tukey_quantile(confidence, k, found.df) * unit if found.df else np.full(len(first), math.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        q = np.nan_to_num(np.abs(difference) / unit, nan=0.0, posinf=math.inf)
    p = tukey_sf(q, k, found.df) if len(first) else np.empty(0)
    pairs = tuple(
        Pair(labels[i], labels[j], float(d), float(d - h), float(d + h), float(pv))
        for i, j, d, h, pv in zip(first, second, difference, half, p, strict=True)
    )
    differs = np.zeros((k, k), dtype=bool)
    differs[first, second] = differs[second, first] = np.abs(difference) > half
    order = [int(i) for i in np.argsort(means, kind="stable")]
    letters = compact_letters(differs, order)
    return AllPairs(tuple(labels), means, pairs, tuple(letters), _groups(labels, letters, order))


def _groups(
    labels: Sequence[Hashable], letters: Sequence[str], order: Sequence[int]
) -> tuple[tuple[Hashable, ...], ...]:
    members: dict[str, list[Hashable]] = {}
    for i in order:
        for letter in re.findall(r"\(\d+\)|.", letters[i]):
            members.setdefault(letter, []).append(labels[i])
    return tuple(tuple(group) for group in members.values())

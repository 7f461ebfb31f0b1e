"""A bootstrap over workloads and, within each, over blocks: intervals and ranks for "programs of this kind".

Resampling programs first makes them the random unit (Kalibera and Jones, ISMM 2013; Field and Welsh, JRSS B 69, 2007).
Percentiles of so few programs are too narrow, so their levels are widened as Student's t would (Hesterberg, The
American Statistician 69, 2015: the expanded percentile interval).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..model.analysis import Interval
from .design_matrix import Array
from .quantiles import t_quantile

LEAST_WORKLOADS = 5  # below, resamples of the same few programs say little of others
DRAWS = 4000


@dataclass(frozen=True, slots=True)
class Resampled:
    """Per treatment the geometric mean ratio to the baseline over workloads, and in which share of resamples it has the
    least mean (`best`, summing to 1). Limits are 0 and infinity with fewer than LEAST_WORKLOADS."""

    intervals: tuple[Interval, ...]
    best: tuple[float, ...]


def hierarchical_bootstrap(
    logs: Sequence[Array], baseline: int, *, confidence: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> Resampled:
    """`logs`: per workload the log responses, blocks x treatments, columns alike; every workload weighs the same.

    Blocks are drawn whole, so that what treatments share in a block stays shared. O(draws x all observations).
    """
    draw = np.random.default_rng(seed)
    relative = [np.asarray(y, dtype=float) - np.asarray(y, dtype=float)[:, [baseline]] for y in logs]
    centre = np.mean([y.mean(axis=0) for y in relative], axis=0)
    # As many workloads as there are, with replacement; one that is drawn twice gets blocks of its own each time.
    chosen = draw.integers(0, len(relative), (len(relative), draws))
    means = np.empty((*chosen.shape, len(centre)))
    for workload, y in enumerate(relative):
        here = chosen == workload
        means[here] = _block_means(y, int(here.sum()), draw)
    resampled = means.mean(axis=0)
    best = np.bincount(resampled.argmin(axis=1), minlength=len(centre)) / draws
    if len(relative) < LEAST_WORKLOADS:
        intervals = tuple(Interval(_exp(c), 0.0, math.inf) for c in centre)
    else:
        level = _expanded(confidence, len(relative))
        low, high = np.quantile(resampled, [level, 1 - level], axis=0)
        intervals = tuple(Interval(*map(_exp, limits)) for limits in zip(centre, low, high, strict=True))
    return Resampled(intervals, tuple(float(share) for share in best))


def _block_means(y: Array, draws: int, draw: np.random.Generator) -> Array:
    """Draws x treatments: means over as many blocks as there are, with replacement."""
    blocks = len(y)
    counts = draw.multinomial(blocks, np.full(blocks, 1 / blocks), size=draws)
    return counts @ y / blocks


def _expanded(confidence: float, workloads: int) -> float:
    from scipy.special import ndtr

    widened = math.sqrt(workloads / (workloads - 1)) * t_quantile((1 + confidence) / 2, workloads - 1)
    return float(ndtr(-widened))


def _exp(x: float) -> float:
    return math.exp(min(float(x), 709.0))

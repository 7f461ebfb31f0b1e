# SPDX-License-Identifier: Apache-2.0
"""The analysis of variance of a study: which factors and interactions move a response, and how the treatments cluster.

After Elias, Matias, Fernandes and Borges, SAC 2014. Their tables lack blocks, effect sizes, the allocator as a factor, and a
look at the residuals.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..model.analysis import Anova, AnovaMean, AnovaRow
from ..model.metrics import metric_named
from ..model.observations import Observations
from .anova_partial import ALLOCATOR, BLOCKS, looked_at, partial_anova
from .block_model import cv_of
from .factorial import Factorial, analyse_factorial, average_ranks
from .letters import compact_letters
from .quantiles import tukey_quantile
from .scale import scale_for
from .tables import excluded

MOST_FACTORS = 6  # 2^6 sources are more than anybody reads


def anovas_of(observations: Observations) -> tuple[Anova, ...]:
    """Of the two leading metrics, where factors tell the workloads apart and two rounds are complete: with all interactions
    where the workloads are a full crossing, else (a fraction, constraints) with those of the allocator only.

    Treatments that failed anywhere are left out, then rounds in which a cell is missing. O(rows x 2^factors).
    """
    settings = observations.settings
    varied = varied_factors(observations, observations.workloads)
    if not varied or len(varied) >= MOST_FACTORS:
        return ()
    full = math.prod(len(seen) for seen in varied.values()) == len(observations.workloads)
    made = _anova if full else partial_anova
    found = (made(observations, varied, m) for m in (settings.time_metric, settings.memory_metric))
    return tuple(a for a in found if a is not None)


def varied_factors(observations: Observations, workloads: Sequence[str]) -> dict[str, list[str]]:
    """Factors that tell the workloads apart, with their levels; of several that change together the first."""
    levels: dict[str, dict[str, None]] = defaultdict(dict)
    for workload in workloads:
        for name, level in observations.levels.get(workload, {}).items():
            levels[name][level] = None
    varied: dict[str, list[str]] = {}
    for name, seen in levels.items():
        if len(seen) > 1 and not any(_same(observations, name, kept) for kept in varied):
            varied[name] = list(seen)
    return varied


def _same(observations: Observations, one: str, other: str) -> bool:
    """Whether two factors change together, level for level: then they are one."""
    pairs = {(levels.get(one), levels.get(other)) for levels in observations.levels.values()}
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def _anova(observations: Observations, factors: dict[str, list[str]], metric: str) -> Anova | None:
    out = set().union(*excluded(observations).values(), set())
    treatments = [t for t in observations.treatments if t not in out and t != observations.control]
    built = _array(observations, factors, metric, treatments)
    if built is None or len(treatments) < 2 or observations.baseline not in treatments:
        return None
    y, order = built
    fit = analyse_factorial(y, [ALLOCATOR, *factors])
    groups = np.broadcast_to(np.arange(len(y)).reshape(-1, *([1] * (y.ndim - 1))), y.shape)
    looked = looked_at(
        fit.residuals.ravel(),
        leverages=np.full(y.size, 1 - fit.error_df / y.size),
        error_df=fit.error_df,
        groups=groups.ravel().tolist(),
        blocks=np.broadcast_to(np.arange(y.shape[-1]), y.shape).ravel(),
        trials=order.ravel(),
    )
    return Anova(
        metric,
        fit.names,
        math.prod(y.shape[:-1]),
        y.shape[-1],
        tuple(
            AnovaRow(" x ".join(s.factors) or BLOCKS, s.df, s.sum_of_squares, s.f, s.p, s.eta_squared, s.omega_squared)
            for s in fit.sources
        ),
        fit.error_df,
        fit.mean_square,
        cv_of(fit.mean_square),
        _means(fit, treatments, observations),
        **looked,
    )


def _array(
    observations: Observations, factors: dict[str, list[str]], metric: str, treatments: list[str]
) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    """(logs, trial numbers): treatments x levels ... x complete rounds; None with fewer than two of these."""
    cells: dict[int, dict[tuple[str, ...], tuple[float, int]]] = defaultdict(dict)
    for row in observations.rows:
        if row.metric == metric and 0 <= row.value < math.inf and row.treatment in treatments:
            levels = observations.levels.get(row.workload, {})
            cells[row.round][row.treatment, *(levels[name] for name in factors)] = (row.value, row.trial)
    keys = list(itertools.product(treatments, *factors.values()))
    rounds = sorted(r for r, seen in cells.items() if all(key in seen for key in keys))
    if len(rounds) < 2:
        return None
    shape = (len(treatments), *(len(levels) for levels in factors.values()), len(rounds))
    values = np.array([[cells[r][key][0] for r in rounds] for key in keys]).reshape(shape)
    order = np.array([[cells[r][key][1] for r in rounds] for key in keys]).reshape(shape)
    return scale_for(metric_named(metric), values).forward(values), order


def _means(fit: Factorial, treatments: list[str], observations: Observations) -> tuple[AnovaMean, ...]:
    """Tukey's HSD on the treatments' means over all cells, from the model's own mean square."""
    means, ranks = fit.means(0), average_ranks(fit.y, 0)
    error = math.sqrt(fit.mean_square * len(means) / fit.y.size)  # of one mean
    limit = tukey_quantile(observations.settings.confidence, len(means), fit.error_df) * error
    differs = np.abs(means[:, None] - means[None, :]) > limit
    order = [int(i) for i in np.argsort(means, kind="stable")]
    letters = compact_letters(differs, order)
    base = means[treatments.index(observations.baseline)]
    return tuple(
        AnovaMean(treatments[i], math.exp(min(means[i] - base, 700.0)), letters[i], float(ranks[i])) for i in order
    )

# SPDX-License-Identifier: Apache-2.0
"""Analysis of variance of a study that is no full crossing: a fraction, or combinations that constraints left out.

Type II sums of squares of the main effects and of the allocator's interaction with each factor; interactions of factors
with each other are confounded or have empty cells and are left out. Means are marginal means, compared by Tukey and Kramer.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model.analysis import Anova, AnovaMean, AnovaRow, OutlyingTrial
from ..model.metrics import metric_named
from ..model.observations import Observation, Observations
from .design_matrix import Array
from .diagnostics import diagnose
from .linear_model import LinearFit, analysis_of_variance, fit_linear
from .marginal_means import marginal_means
from .scale import scale_for
from .tables import excluded
from .tukey import all_pairs

Whole = NDArray[np.signedinteger[Any]]
ALLOCATOR, BLOCKS = "allocator", "blocks"


def partial_anova(observations: Observations, factors: Mapping[str, Sequence[str]], metric: str) -> Anova | None:
    """None with fewer than two treatments or rounds, more parameters than trials, or a factor that others determine.

    O(trials x parameters^2).
    """
    out = set().union(*excluded(observations).values(), set())
    treatments = [t for t in observations.treatments if t not in out and t != observations.control]
    rows = [r for r in observations.rows if r.metric == metric and r.treatment in treatments and 0 <= r.value < math.inf]
    rounds = {r.round for r in rows}
    if len(treatments) < 2 or len(rounds) < 2 or observations.baseline not in treatments:
        return None
    values = np.array([r.value for r in rows])
    columns: dict[str, list[Any]] = {
        ALLOCATOR: [r.treatment for r in rows],
        **{name: [observations.levels[r.workload][name] for r in rows] for name in factors},
        BLOCKS: [r.round for r in rows],
    }
    terms = [(ALLOCATOR,), *((name,) for name in factors), *((ALLOCATOR, name) for name in factors), (BLOCKS,)]
    try:
        fit = fit_linear(scale_for(metric_named(metric), values).forward(values), columns, terms)
    except ValueError:  # more parameters than trials
        return None
    means = _means(fit, rows, observations) if fit.error_df else ()
    if not means:
        return None
    looked = looked_at(
        fit.residuals,
        leverages=fit.leverages,
        error_df=fit.error_df,
        groups=columns[ALLOCATOR],
        blocks=np.array(columns[BLOCKS]),
        trials=np.array([r.trial for r in rows]),
    )
    return Anova(
        metric,
        (ALLOCATOR, *factors),
        len(treatments) * len({r.workload for r in rows}),
        len(rounds),
        tuple(
            AnovaRow(" x ".join(s.factors), s.df, s.sum_of_squares, s.f, s.p, s.eta_squared, s.omega_squared)
            for s in analysis_of_variance(fit)
        ),
        fit.error_df,
        fit.mean_square,
        fit.residual_cv,
        means,
        **looked,
    )


def looked_at(
    residuals: Array, *, leverages: Array, error_df: int, groups: Sequence[Hashable], blocks: Whole, trials: Whole
) -> dict[str, Any]:
    """What the residuals say, as the last fields of an Anova; trials are numbered in the order in which they ran."""
    found = diagnose(residuals, leverages=leverages, error_df=error_df, groups=groups, blocks=blocks, order=trials)
    return {
        "straightness": found.summary.straightness,
        "largest": found.summary.largest,
        "drift": found.summary.drift,
        "scatter_p": found.scatter_p,
        "place_p": found.place.p,
        "outliers": tuple(OutlyingTrial(int(trials[o.at]), o.studentized, o.p) for o in found.outliers),
    }


def _means(fit: LinearFit, rows: Sequence[Observation], observations: Observations) -> tuple[AnovaMean, ...]:
    from scipy.stats import rankdata

    pairs = all_pairs(marginal_means(fit, (ALLOCATOR,)), confidence=observations.settings.confidence)
    at = {label: i for i, label in enumerate(pairs.labels)}
    if observations.baseline not in at:  # a factor that others determine leaves the means of the rest undetermined
        return ()
    cells: dict[tuple[str, int], dict[str, float]] = {}
    for row in rows:
        cells.setdefault((row.workload, row.round), {})[row.treatment] = row.value
    ranks: dict[str, list[float]] = {str(label): [] for label in pairs.labels}
    for found in cells.values():
        for treatment, rank in zip(found, rankdata(list(found.values())), strict=True):
            ranks[treatment].append(float(rank))
    base = pairs.means[at[observations.baseline]]
    order = sorted(pairs.labels, key=lambda label: float(pairs.means[at[label]]))
    return tuple(
        AnovaMean(
            str(label), math.exp(min(float(pairs.means[at[label]] - base), 700.0)), pairs.letters[at[label]],
            float(np.mean(ranks[str(label)])),
        )
        for label in order
    )

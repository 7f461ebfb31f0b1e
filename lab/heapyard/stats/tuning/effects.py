# SPDX-License-Identifier: Apache-2.0
"""What each level of each setting brings by itself: main effects of a screening, from a linear model on the log response."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...model.analysis import Interval
from ...model.tuning import Choice, Effect, Space
from ..contrasts import interval_about
from ..linear_model import LinearFit, fit_linear
from ..quantiles import t_quantile
from .responses import Response


def main_effects(space: Space, choices: Sequence[Choice], response: Response, *, confidence: float) -> tuple[Effect, ...]:
    """Every level of every setting against its default, averaged over the levels of the others.

    `response` has a column for each choice; trials that are missing are left out. What settings do together counts as noise, so
    intervals are wide where the model is wrong. Empty where nothing can be estimated. O(trials x levels^2).
    """
    fitted = _fit(space, choices, response)
    if fitted is None:
        return ()
    found = []
    for place, setting in enumerate(space.settings):
        for level, value in enumerate(setting.levels, start=1):
            interval = _against_default(fitted, str(place), level, confidence)
            if interval is not None:
                found.append(Effect(response.metric, setting.name, value, interval))
    return tuple(found)


def _fit(space: Space, choices: Sequence[Choice], response: Response) -> LinearFit | None:
    blocks, columns = np.nonzero(np.isfinite(response.logs))
    factors: dict[str, list[int]] = {"block": blocks.tolist()}
    factors |= {str(place): [choices[column][place] for column in columns.tolist()] for place in range(len(space.settings))}
    factors = {name: levels for name, levels in factors.items() if len(set(levels)) > 1}
    try:
        return fit_linear(response.logs[blocks, columns], factors, [(name,) for name in factors])
    except ValueError:  # fewer trials than effects
        return None


def _against_default(fitted: LinearFit, factor: str, level: int, confidence: float) -> Interval | None:
    levels = fitted.design.levels.get(factor, ())
    if 0 not in levels or level not in levels:
        return None
    row = fitted.design.row({factor: level}) - fitted.design.row({factor: 0})
    if not fitted.estimable(row):
        return None
    difference = float(row @ fitted.coefficients)
    if fitted.error_df == 0:
        return interval_about(difference, 1.0, math.inf)
    error = math.sqrt(fitted.mean_square) * float(np.linalg.norm(fitted.root.T @ row))
    return interval_about(difference, t_quantile((1 + confidence) / 2, fitted.error_df), error)

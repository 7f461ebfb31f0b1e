# SPDX-License-Identifier: Apache-2.0
"""What the figures of a study say of growth and scaling: laws over a numeric factor, the scalability law over threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..model.analysis import CurvePoint, Curves, Estimate, Scaling, Trend
from ..model.figure import is_number
from ..model.metrics import metric_named
from .growth import LEAST_RANGE, LEAST_SIZES, growth_of
from .growth_forms import FORMS
from .scalability import fit_scalability, why_not

THREADS = "threads"  # the factor that scalability is about


def trends_of(curves: Sequence[Curves]) -> tuple[Trend, ...]:
    """One per figure and treatment with at least LEAST_SIZES levels over a decade; threads are not a size.

    Geometric means over blocks stand for a level: what makes it deviate from a law is the same in all blocks.
    """
    found = []
    for curve, treatment, points in _lines(curves):
        levels = np.array([float(p.level) for p in points])
        response = np.array([p.mean.ratio for p in points])
        if curve.figure.over == THREADS or len(levels) < LEAST_SIZES or not (levels > 0).all() or not (response > 0).all():
            continue
        if levels.max() / levels.min() < LEAST_RANGE:
            continue
        growth = growth_of(levels, response)
        best, at = growth.laws[0], 2 * float(levels.max())
        middle, low, high = (float(v) for v in best.predict(FORMS[best.name](np.array(at))))
        weights = tuple((law.name, law.weight) for law in growth.laws)
        found.append(
            Trend(
                curve.figure.title, curve.figure.metric, curve.figure.over, treatment, growth.answer, growth.reason,
                growth.slope, weights, at, Estimate(middle, low, high),
            )
        )
    return tuple(found)


def scalings_of(curves: Sequence[Curves], processors: int) -> tuple[Scaling, ...]:
    """One per figure of throughput over threads and treatment; refused in one sentence beyond the machine's processors."""
    found = []
    for curve, treatment, points in _lines(curves):
        if curve.figure.over != THREADS or metric_named(curve.figure.metric).direction != "higher":
            continue
        threads = np.array([float(p.level) for p in points])
        throughput = np.array([p.mean.ratio for p in points])
        if reason := why_not(threads, processors):
            found.append(Scaling(curve.figure.title, treatment, reason))
            continue
        law = fit_scalability(threads, throughput, processors=processors)
        found.append(Scaling(curve.figure.title, treatment, "", law.gamma, law.alpha, law.beta, law.peak))
    return tuple(found)


def _lines(curves: Sequence[Curves]) -> Iterator[tuple[Curves, str, list[CurvePoint]]]:
    """Every line of absolute numbers over numeric levels, figure by figure."""
    for curve in curves:
        if not curve.numeric or curve.figure.relative:
            continue
        for treatment in dict.fromkeys(p.treatment for p in curve.points):
            yield curve, treatment, [p for p in curve.points if p.treatment == treatment and is_number(p.level)]

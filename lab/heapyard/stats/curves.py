# SPDX-License-Identifier: Apache-2.0
"""The numbers of a study's figures: one response over the levels of one factor, per treatment, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..model.analysis import CurvePoint, Curves, Interval
from ..model.figure import Figure
from ..model.metrics import metric_named
from ..model.observations import Observations
from .block_model import ROUNDING
from .quantiles import t_quantile
from .scale import scale_for
from .tables import Table


def curves_of(observations: Observations, tables: Sequence[Table]) -> tuple[Curves, ...]:
    """Every figure of the study with its points; a figure of which nothing was measured has none. O(tables x figures).

    A point is the geometric mean over complete blocks with its t-interval on the log scale, in the metric's unit; of a
    relative figure the ratio to the baseline, formed within blocks. Where several workloads share a level (a factor
    that the figure does not fix) their logs are averaged, round by round.
    """
    return tuple(_curves(figure, observations, tables) for figure in observations.figures)


def _curves(figure: Figure, observations: Observations, tables: Sequence[Table]) -> Curves:
    by_level: dict[str, list[Table]] = {}
    for workload in observations.workloads:
        levels = observations.levels.get(workload, {})
        if figure.over in levels and all(levels.get(name) == level for name, level in figure.at.items()):
            found = (t for t in tables if t.workload == workload and t.metric == figure.metric)
            by_level.setdefault(levels[figure.over], []).extend(found)
    points = tuple(
        _point(figure, treatment, level, those, observations)
        for treatment in observations.treatments
        if treatment != observations.control
        for level, those in by_level.items()
        # A mean over fewer workloads than the others' is no point of the same curve.
        if those and all(treatment in t.labels for t in those)
    )
    return Curves(figure, tuple(by_level), points)


def _point(
    figure: Figure, treatment: str, level: str, tables: Sequence[Table], observations: Observations
) -> CurvePoint:
    shortest = min(len(t.values) for t in tables)
    scale = scale_for(metric_named(figure.metric), np.concatenate([t.values.ravel() for t in tables]))
    logs = []
    for table in tables:
        y = scale.forward(table.values[:shortest])
        own = y[:, table.labels.index(treatment)]
        logs.append(own - y[:, table.labels.index(observations.baseline)] if figure.relative else own)
    offset = 0.0 if figure.relative else scale.offset
    return CurvePoint(
        treatment,
        level,
        _interval(np.mean(logs, axis=0), offset, observations.settings.confidence),
        shortest,
        tables[0].workload,
        any(_oversubscribed(t.workload, observations) for t in tables),
    )


def _oversubscribed(workload: str, observations: Observations) -> bool:
    threads = observations.levels[workload].get("threads", "")
    return bool(observations.processors) and threads.isdecimal() and int(threads) > observations.processors


def _interval(logs: np.ndarray, offset: float, confidence: float) -> Interval:
    """exp(mean) - offset with its t-interval; 0 and infinity where one block bounds nothing."""
    middle = float(logs.mean())
    if len(logs) < 2:
        return Interval(max(_exp(middle) - offset, 0.0), 0.0, math.inf)
    sd = float(logs.std(ddof=1))
    half = t_quantile((1 + confidence) / 2, len(logs) - 1) * sd / math.sqrt(len(logs)) if sd > ROUNDING else 0.0
    return Interval(*(max(_exp(x) - offset, 0.0) for x in (middle, middle - half, middle + half)))


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf

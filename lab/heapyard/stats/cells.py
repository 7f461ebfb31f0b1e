# SPDX-License-Identifier: Apache-2.0
"""One cell of the answer: all treatments on one workload for one metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..design.two_stage import blocks_to_decide
from ..model.analysis import Cell, Comparison, Summary
from ..model.experiment import Settings
from ..model.metrics import Direction, Metric, metric_named
from .block_model import cv_of
from .contrasts import Contrast, Contrasts
from .letters import compact_letters
from .scale import margin_of, scale_for, sign_of
from .tables import Table
from .verdict import verdict


def analyse_cell(table: Table, *, baseline: str, control: str, settings: Settings, checks: int) -> Cell:
    """Model, comparisons, letters and A/A control of one table; `checks`: number of A/A checks in the experiment.

    A treatment that went on after others were released is compared by all blocks it took part in; means, letters and
    noise speak of the blocks that everybody took part in.
    """
    metric = metric_named(table.metric)
    scale = scale_for(metric, table.values)
    others = [label for label in table.labels if label not in (baseline, control)]
    found: dict[str, Comparison] = {}
    parts = [_contrasts(part, control, metric, settings) for part in (table, *table.longer)]
    for part, contrasts in zip((table, *table.longer), parts, strict=True):
        # A longer part has the last word. Its corrections are for everybody's comparisons, not just for those left.
        base, index = part.labels.index(baseline), part.labels.index
        rest = [label for label in others if label in part.labels]
        made = contrasts.against(base, list(map(index, rest)), family=None if part is table else len(others))
        asked = [(label, contrast, len(others)) for label, contrast in zip(rest, made, strict=True)]
        if control in part.labels:
            family = max(checks, 1)
            asked.append((control, contrasts.against(base, [index(control)], family=family)[0], family))
        for label, contrast, family in asked:
            found[label] = compared(
                contrast,
                label,
                workload=table.workload,
                metric_name=table.metric,
                blocks=len(part.values),
                settings=settings,
                family=family,
            )
    first, last = parts[0], parts[-1]
    comparisons = tuple(found[label] for label in others)
    return Cell(
        workload=table.workload,
        metric=table.metric,
        blocks=last.fit.blocks,
        residual_df=first.fit.df,
        residual_cv=first.fit.residual_cv,
        summaries=_summaries(table, first, scale.back, losers(comparisons, metric.direction)),
        comparisons=comparisons,
        control=found.get(control),
        half_width=last.pair_half_width(),
        method=first.method,
    )


def _contrasts(table: Table, control: str, metric: Metric, settings: Settings) -> Contrasts:
    columns = [i for i, label in enumerate(table.labels) if label != control]
    y = scale_for(metric, table.values).forward(table.values)
    return Contrasts(y, columns, confidence=settings.confidence)


def compared(
    contrast: Contrast,
    treatment: str,
    *,
    workload: str,
    metric_name: str,
    blocks: int,
    settings: Settings,
    family: int,
) -> Comparison:
    """A contrast with its verdict and, if undecided, the number of further blocks."""
    metric = metric_named(metric_name)
    margin = margin_of(metric, settings)
    found = verdict(contrast.pair, contrast.simultaneous, contrast.tost, margin=margin, direction=metric.direction)
    more = None
    if found == "undecided":
        more = blocks_to_decide(
            contrast.difference, contrast.sd, blocks, margin=margin, confidence=settings.confidence, comparisons=family
        )
    return Comparison(
        workload, metric_name, treatment, blocks, contrast.pair, contrast.simultaneous, contrast.p_value, found, more
    )


class Compared(Protocol):
    """Treatments whose means and differences are known: of one table (Contrasts) or of several (FixedPrograms)."""

    columns: tuple[int, ...]

    @property
    def column_means(self) -> NDArray[np.float64]: ...

    def differs(self) -> NDArray[np.bool_]: ...


def standing(contrasts: Compared, direction: int) -> tuple[list[int], list[str], list[bool]]:
    """Positions in `contrasts.columns`, best first, with letters and membership among the best per position.

    Among the best: not distinguishable from the best mean. Where neither direction is better all are, ordered by mean.
    """
    means = contrasts.column_means
    order = list(np.argsort(-means if direction > 0 else means, kind="stable"))
    differs = contrasts.differs()
    letters = compact_letters(differs, order)
    return order, letters, [direction == 0 or not differs[order[0], i] for i in range(len(means))]


def losers(comparisons: Iterable[Comparison], direction: Direction) -> frozenset[str]:
    """Treatments shown to be worse than the baseline: not among the best, even where the test of all pairs, which has more
    to correct for, cannot see it."""
    return frozenset(c.treatment for c in comparisons if c.verdict == "worse" and direction != "neutral")


def _summaries(
    table: Table, contrasts: Contrasts, back: Callable[[float], float], worse: Collection[str]
) -> tuple[Summary, ...]:
    _, letters, best = standing(contrasts, sign_of(metric_named(table.metric).direction))
    made = []
    for place, column in enumerate(contrasts.columns):
        y = contrasts.fit.y[:, column]
        cv = cv_of(float(y.var(ddof=1))) if len(y) > 1 else math.nan
        label, mean = table.labels[column], back(float(contrasts.fit.means[column]))
        made.append(Summary(label, mean, cv, len(y), letters[place], best[place] and label not in worse))
    return tuple(made)

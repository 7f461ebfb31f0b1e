# SPDX-License-Identifier: Apache-2.0
"""How the effects of a study depend on the levels of its factors. Levels are fixed: none is a sample of others."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ..model.analysis import ByLevel, LevelEffect
from ..model.experiment import Settings
from ..model.figure import is_number
from ..model.metrics import metric_named
from ..model.observations import Observations
from .anova import varied_factors
from .contrasts import exp_capped
from .fixed_programs import excess
from .overall import fixed_programs
from .scale import margin_of
from .tables import Table
from .verdict import verdict


def by_level(
    observations: Observations,
    metric: str,
    tables: Sequence[Table],
    workloads: Sequence[str],
    treatments: Sequence[str],
) -> ByLevel | None:
    """Effects per level of the factor that moves them most, over the common set of `workloads` and `treatments`.

    None unless a factor of two levels or more tells the workloads apart. The factor is the one with the largest sum of
    squares of the level means of the effects. Intervals hold for all treatments and levels together (Bonferroni), and so
    does `depends`: two of a treatment's levels lie apart by more than the margin. O(factors x workloads x treatments).
    """
    settings, baseline = observations.settings, observations.baseline
    factors = varied_factors(observations, workloads)
    others = [i for i, t in enumerate(treatments) if t != baseline]
    if len(workloads) < 2 or not others or baseline not in treatments or not factors:
        return None
    base = treatments.index(baseline)
    fixed = fixed_programs(tables, workloads, treatments, confidence=settings.confidence, control=observations.control)
    effects = fixed.effects(base, others)
    at = {name: [observations.levels[w][name] for w in workloads] for name in factors}
    factor = max(factors, key=lambda name: _moved(effects, at[name]))
    levels = sorted(factors[factor], key=float) if all(map(is_number, factors[factor])) else factors[factor]
    found = [
        e
        for level in levels
        for e in _at_level(
            observations, metric, tables, [w for w, x in zip(workloads, at[factor], strict=True) if x == level],
            treatments, level, len(others) * len(levels),
        )
    ]  # fmt: skip
    margin = margin_of(metric_named(metric), settings)
    depends = tuple(
        treatments[i]
        for i in others
        if any(
            excess(a.simultaneous, b.simultaneous) > 1 + margin
            for a, b in itertools.combinations([e for e in found if e.treatment == treatments[i]], 2)
        )
    )
    return ByLevel(metric, factor, tuple(levels), tuple(found), depends)


def _moved(effects: np.ndarray, levels: Sequence[str]) -> float:
    """Sum of squares of the level means about the grand mean, over all treatments. `effects`: workloads x treatments."""
    grand, total = effects.mean(axis=0), 0.0
    for level in set(levels):
        here = effects[[x == level for x in levels]]
        total += len(here) * float(((here.mean(axis=0) - grand) ** 2).sum())
    return total


def _at_level(
    observations: Observations,
    metric: str,
    tables: Sequence[Table],
    workloads: Sequence[str],
    treatments: Sequence[str],
    level: str,
    family: int,
) -> list[LevelEffect]:
    settings: Settings = observations.settings
    described = metric_named(metric)
    base = treatments.index(observations.baseline)
    others = [i for i in range(len(treatments)) if i != base]
    fixed = fixed_programs(tables, workloads, treatments, confidence=settings.confidence, control=observations.control)
    ratios = [[exp_capped(float(x)) for x in column] for column in fixed.effects(base, others).T]
    margin = margin_of(described, settings)
    return [
        LevelEffect(
            treatments[i],
            level,
            c.pair,
            c.simultaneous,
            verdict(c.pair, c.simultaneous, c.tost, margin=margin, direction=described.direction),
            min(seen),
            max(seen),
        )
        for i, c, seen in zip(others, fixed.against(base, others, family=family), ratios, strict=True)
    ]

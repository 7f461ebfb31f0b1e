# SPDX-License-Identifier: Apache-2.0
"""Races that never ran, in stages: the design's own rules on random responses, and the report's own verdicts on what they
leave. Names of treatments: `glibc`, `a1`, `a2`, ..., `control`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from heapyard.design.looks import looks_from, settled, share_of_precision
from heapyard.design.two_stage import blocks_wanted
from heapyard.model.analysis import Cell
from heapyard.model.experiment import Settings
from heapyard.model.observations import Observation, Observations
from heapyard.stats.cells import analyse_cell
from heapyard.stats.tables import Table, tables

PILOT, MOST = 6, 200
STAGED = Settings(looks=looks_from(PILOT, MOST), max_blocks=MOST)
AT_ONCE = replace(STAGED, looks=())  # Stein's second stage alone: everything is measured until it is as precise as asked for


@dataclass(frozen=True)
class Race:
    """One program: its cell of the report, the table of blocks that everybody took part in, trials, effects (logs)."""

    cell: Cell
    table: Table
    trials: int
    effects: np.ndarray


def race(rng, effects, noise, settings=STAGED, *, programs=8, draw=None) -> Race:
    """`effects`: ln ratio of each treatment; `noise` of ln(response) of one trial beyond its block; `draw`: other noise."""
    effects = np.asarray(effects, dtype=float)
    labels = ["glibc", *(f"a{i + 1}" for i in range(len(effects))), "control"]
    shape = (settings.max_blocks, len(labels))
    y = (rng.normal(0, noise, shape) if draw is None else draw(rng, shape)) + np.r_[0, effects, 0]
    y += rng.normal(0, 0.05, (len(y), 1))
    blocks = dict.fromkeys(labels, PILOT)
    wanted = {w: blocks_wanted(y[:PILOT], precision=w, at_most=settings.max_blocks)
              for w in (settings.precision, share_of_precision(settings.precision, programs))}
    full, share = wanted.values()
    going, now = list(range(len(labels))), PILOT
    while now < full and len(going) > 2:
        if settings.looks and now >= share:
            closed = settled(
                y[:now, going], range(1, len(going) - 1), base=0, margin=settings.margin_time, family=len(effects),
                levels=settings.look_levels,
            )
            going = [i for i, out in zip(going, [False, *closed, False], strict=True) if not out]
            if len(going) == 2:
                break
        now = min(next((look for look in settings.looks if look > now), full), full)
        blocks |= {labels[i]: now for i in going}
    if len(going) == 2:  # nobody is left to be compared
        blocks |= {"glibc": max(blocks[x] for x in labels[1:-1]), "control": max(blocks[x] for x in labels[1:-1])}
    rows = tuple(
        Observation("w", label, b, "wall", float(np.exp(y[b, i]))) for i, label in enumerate(labels) for b in range(blocks[label])
    )
    seen = Observations(("w",), tuple(labels[:-1]), "glibc", "control", rows, (), settings)
    (table,) = tables(seen)
    cell = analyse_cell(table, baseline="glibc", control="control", settings=settings, checks=1)
    return Race(cell, table, sum(blocks.values()), effects)


def called(race: Race, *verdicts: str) -> np.ndarray:
    """Per treatment whether its verdict is one of these."""
    return np.array([c.verdict in verdicts for c in race.cell.comparisons])


def covered(race: Race) -> np.ndarray:
    """Per treatment whether its own 95 % interval holds the true ratio."""
    truth = np.exp(race.effects)
    return np.array([c.interval.low <= t <= c.interval.high for c, t in zip(race.cell.comparisons, truth, strict=True)])


def mean_over(races: list[Race]) -> tuple[np.ndarray, np.ndarray]:
    """Of the mean over programs, taken as fixed: estimates and half-widths of 95 % intervals, per treatment.

    Means of within-block differences of the blocks that everybody took part in; variances add, with Satterthwaite's
    degrees of freedom.
    """
    from scipy.special import stdtrit

    logs = [np.log(r.table.values) for r in races]
    differences = [y[:, 1:-1] - y[:, :1] for y in logs]
    parts = np.array([d.var(axis=0, ddof=1) / len(d) for d in differences]) / len(races) ** 2
    df = parts.sum(axis=0) ** 2 / sum(p**2 / (len(d) - 1) for p, d in zip(parts, differences, strict=True))
    half = stdtrit(df, 0.975) * np.sqrt(parts.sum(axis=0))
    return np.mean([d.mean(axis=0) for d in differences], axis=0), half


MARGIN = math.log1p(STAGED.margin_time)

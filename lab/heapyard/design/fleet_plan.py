# SPDX-License-Identifier: Apache-2.0
"""How long a study would take on fleets of several sizes, and how well it would fill them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..model.experiment import Block, Experiment
from .blocks import make_blocks
from .fleet_schedule import Piece, Schedule, simulate
from .trial_times import WARM_UP, TrialTimes, draw_pieces

SIZES = tuple(step * 10**power for power in range(5) for step in (1, 3))
COURSES = 200  # simulated runs: the ends of an interval of 95 % then rest on five of them each


@dataclass(frozen=True, slots=True)
class FleetForecast:
    """A study on `nodes` nodes: medians over simulated runs, with the middle 95 % of durations. Times in seconds.

    `longest`: the longest block. `full`: the share of the nodes' time that jobs took; `fullest` and `emptiest`: of one node.
    """

    nodes: int
    duration: float
    low: float
    high: float
    node_seconds: float
    full: float
    emptiest: float
    fullest: float
    longest: float


def stages_of(experiment: Experiment, totals: Mapping[str, int]) -> list[list[Block]]:
    """The blocks of each stage in the order in which they are given out, repeated ones apart. `totals`: blocks by workload.

    A look ends a stage; what it releases is not known beforehand. O(trials).
    """
    settings = experiment.settings
    names, labels = [p.name for p in experiment.programs], [t.label for t in experiment.treatments]
    most = max(totals.values())
    if settings.blocks is not None:
        ends = [("main", most)]
    else:
        looks = [look for look in settings.looks if settings.pilot_blocks < look < most]
        ends = [("pilot", settings.pilot_blocks), *(("main", end) for end in (*looks, most))]
    stages = [make_blocks(names, [settings.baseline], range(1), seed=settings.seed, stage=WARM_UP, first_index=0)]
    begin = 0
    for stage, end in ends:
        rounds = {w: range(begin, min(end, totals[w])) for w in names}
        first = sum(map(len, stages))
        stages.append(make_blocks(names, labels, rounds, seed=settings.seed, stage=stage, first_index=first))
        begin = end
    return [stage for stage in stages if stage]


def sizes_up_to(nodes: int, stages: Sequence[Sequence[Block]]) -> list[int]:
    """1, 3, 10, 30, ... below what the largest stage can use, then that, and `nodes`."""
    most = max(map(len, stages))
    return sorted({*(size for size in SIZES if size < most), most, nodes})


def forecasts(
    experiment: Experiment,
    stages: Sequence[Sequence[Block]],
    times: TrialTimes,
    sizes: Sequence[int],
    *,
    job_start: float,
    seed: int,
    courses: int = COURSES,
    done: Callable[[int], None] = lambda course: None,
) -> list[FleetForecast]:
    """Simulate `courses` runs on a fleet of each size. All sizes see the same runs, so that they differ by size alone.

    `done` is told after each run how many there were. KeyError for a workload without times. O(courses x sizes x blocks log
    blocks).
    """
    import numpy as np

    settings = experiment.settings
    limit = math.ceil(settings.redo_limit * sum(b.stage != WARM_UP for stage in stages for b in stage))
    runs: dict[int, list[Schedule]] = {size: [] for size in sizes}
    longest = []
    for course in range(courses):
        random = np.random.default_rng([seed, course])
        pieces: list[list[Piece]] = [draw_pieces(stage, times, settings.baseline, random) for stage in stages]
        longest.append(max(piece.seconds for stage in pieces for piece in stage))
        for size in sizes:
            runs[size].append(simulate(pieces, size, job_start=job_start, most_repeats=limit))
        done(course + 1)
    return [_summed_up(size, runs[size], float(np.median(longest))) for size in sizes]


def _summed_up(nodes: int, runs: Sequence[Schedule], longest: float) -> FleetForecast:
    import numpy as np

    low, duration, high = (float(v) for v in np.quantile([r.duration for r in runs], (0.025, 0.5, 0.975)))
    return FleetForecast(
        nodes,
        duration,
        low,
        high,
        float(np.median([r.node_seconds for r in runs])),
        float(np.median([r.full for r in runs])),
        float(np.median([min(r.busy) / r.duration for r in runs])),
        float(np.median([max(r.busy) / r.duration for r in runs])),
        longest,
    )

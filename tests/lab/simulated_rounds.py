# SPDX-License-Identifier: Apache-2.0
"""Studies of a mutator that never ran: every level of a factor in every round, with a known truth."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from heapyard.model.experiment import Settings
from heapyard.model.observations import Observation, Observations

CONTROL = "base (A/A control)"
LEVELS = ("1", "2", "4", "8", "16")
Truth = Callable[[float, str], float]


def study(
    truth: Truth,
    *,
    treatments: tuple[str, ...] = ("base", "one", "two"),
    levels: tuple[str, ...] = LEVELS,
    rounds: int = 8,
    noise: float = 0.01,
    seed: int = 0,
    metric: str = "wall",
    **fields: object,
) -> Observations:
    """A mutator at every level, in rounds: truth(level, treatment) times a round's drift times log-normal noise."""
    draw = random.Random(seed)
    rows = []
    for number in range(rounds):
        drift = draw.gauss(0, 5 * noise)
        for place, level in enumerate(levels):
            for label in (*treatments, CONTROL):
                value = truth(float(level), "base" if label == CONTROL else label)
                value *= math.exp(drift + draw.gauss(0, noise))
                block = number * len(levels) + place
                rows.append(Observation(f"m x={level}", label, block, metric, value, round=number))
    return Observations(
        workloads=tuple(f"m x={level}" for level in levels),
        treatments=treatments,
        baseline="base",
        control=CONTROL,
        rows=tuple(rows),
        settings=Settings(baseline="base"),
        levels={f"m x={level}": {"x": level, "threads": level} for level in levels},
        **fields,  # type: ignore[arg-type]
    )


SPEEDS = {"base": 1.0, "one": 0.8, "two": 1.25}


def by_speed(level: float, treatment: str) -> float:
    return SPEEDS[treatment] * level

# SPDX-License-Identifier: Apache-2.0
"""Searches over settings that never ran: the search's own rules on random responses with a known truth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from heapyard.design.looks import looks_from
from heapyard.design.screening import screening
from heapyard.model.analysis import Analysis
from heapyard.model.experiment import Settings
from heapyard.model.observations import Observation, Observations
from heapyard.model.tuning import Choice, Effect, Setting, Space
from heapyard.report.choice import choose
from heapyard.stats.tuning.confirming import confirm
from heapyard.stats.tuning.effects import main_effects
from heapyard.stats.tuning.entrants import entrants, finalists, neighbours, survivors
from heapyard.stats.tuning.responses import responses_of

Truth = Callable[[Choice], tuple[float, float]]  # ln of time and memory
SETTINGS = Settings(memory_metric="peak_rss", blocks=1)
MARGINS = (SETTINGS.margin_time, SETTINGS.margin_memory)
SCREENED, RACED, CONFIRMED = 2, 8, 8  # blocks


@dataclass(frozen=True)
class Search:
    best: Choice | None
    effects: tuple[Effect, ...]
    confirmed: Analysis | None
    trials: int


def space_of(*counts: int) -> Space:
    return Space("glibc", tuple(Setting(f"s{i}", tuple(map(str, range(1, n)))) for i, n in enumerate(counts)))


def grid_best(space: Space, truth: Truth) -> Choice:
    """Of the whole grid the least time."""
    return min(itertools.product(*map(range, space.counts)), key=lambda choice: truth(choice)[0])


class Machine:
    """Measures blocks of choices; each block and each trial has log-normal noise."""

    def __init__(self, rng: np.random.Generator, space: Space, truth: Truth, noise: float):
        self.rng, self.space, self.truth, self.noise, self.trials = rng, space, truth, noise, 0

    def blocks(self, choices: Sequence[Choice], count: int, first: int = 0) -> list[Observation]:
        rows = []
        for block in range(first, first + count):
            drift = self.rng.normal(0, 5 * self.noise)
            for choice in choices:
                self.trials += 1
                for metric, value, share in zip(("wall", "peak_rss"), self.truth(choice), (1.0, 0.3), strict=True):
                    noisy = value + share * (drift + self.rng.normal(0, self.noise))
                    rows.append(Observation("w", self.space.label(choice), block, metric, math.exp(noisy)))
        return rows

    def seen(self, choices: Sequence[Choice], rows: Sequence[Observation]) -> Observations:
        labels = tuple(map(self.space.label, choices))
        return Observations(("w",), labels, labels[0], "", tuple(rows), settings=SETTINGS)


def search(rng: np.random.Generator, space: Space, truth: Truth, *, noise: float = 0.01) -> Search:
    machine = Machine(rng, space, truth, noise)
    runs = screening(space.counts)
    responses = responses_of(machine.seen(runs, machine.blocks(runs, SCREENED)), list(map(space.label, runs)))
    effects = tuple(e for response in responses for e in main_effects(space, runs, response, confidence=0.95))
    racing = entrants(space, runs, responses, effects, MARGINS, confidence=0.95)
    last = race(machine, racing)
    last = race(machine, neighbours(space, last, racing)) if last else ()
    if not last:
        return Search(None, effects, None, machine.trials)
    choices = (space.default, *last)
    confirmed = confirm(machine.seen(choices, machine.blocks(choices, CONFIRMED)), space, choices, allocators=1)
    label = choose(confirmed)
    return Search({space.label(c): c for c in choices}.get(label or ""), effects, confirmed, machine.trials)


def race(machine: Machine, racing: Sequence[Choice]) -> tuple[Choice, ...]:
    """The finalists."""
    space, rows, alive, done = machine.space, list[Observation](), list(range(len(racing))), 0
    for look in (*looks_from(3, RACED), RACED):
        rows += machine.blocks([racing[i] for i in alive], look - done, done)
        done = look
        responses = responses_of(machine.seen(racing, rows), list(map(space.label, racing)))
        alive = survivors(responses, MARGINS)
        if len(alive) < 3:
            break
    return finalists(racing, alive, responses, MARGINS)

# SPDX-License-Identifier: Apache-2.0
"""Searches over settings that never ran: the search's own rules on random responses with a known truth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from heapyard.design.looks import looks_from
from heapyard.design.racing import beaten
from heapyard.design.screening import screening
from heapyard.model.analysis import Analysis
from heapyard.model.experiment import Settings
from heapyard.model.observations import Observation, Observations
from heapyard.model.tuning import Choice, Effect, Setting, Space
from heapyard.model.preference import BY_TIME
from heapyard.report.setting_choice import choose_setting
from heapyard.stats.tuning.confirming import confirm
from heapyard.stats.tuning.effects import main_effects
from heapyard.stats.tuning.entrants import entrants, finalists
from heapyard.stats.tuning.responses import Response, responses_of

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


def search(rng: np.random.Generator, space: Space, truth: Truth, *, noise: float = 0.01, screened: int = SCREENED,
           raced: int = RACED, confirmed: int = CONFIRMED) -> Search:
    machine, phases = Machine(rng, space, truth, noise), Phases(space)
    runs = screening(space.counts)
    responses = phases.add(machine, runs, machine.blocks(runs, screened))
    effects = tuple(e for response in responses for e in main_effects(space, runs, response, confidence=0.95))
    for seed in (1, 2):
        race(machine, phases, entrants(space, (phases.time, phases.memory), MARGINS, seed), raced)
    last = finalists(space, (phases.time, phases.memory), MARGINS)
    if not last:
        return Search(None, effects, None, machine.trials)
    choices = (space.default, *last)
    rows = machine.blocks(choices, confirmed)
    known = confirm(machine.seen(choices, rows), space, choices, allocators=1)
    phases.add(machine, choices, rows)
    best = choose_setting(known, space, last, BY_TIME, (phases.time, phases.memory), MARGINS)
    return Search(best, effects, known, machine.trials)


class Phases:
    """Time and memory of all choices, phase by phase."""

    def __init__(self, space: Space):
        self.space = space
        self.time: list[tuple[Sequence[Choice], Response]] = []
        self.memory: list[tuple[Sequence[Choice], Response]] = []

    def add(self, machine: Machine, choices: Sequence[Choice], rows: Sequence[Observation]) -> tuple[Response, Response]:
        time, memory = responses_of(machine.seen(choices, rows), list(map(self.space.label, choices)))
        self.time.append((choices, time))
        self.memory.append((choices, memory))
        return time, memory


def race(machine: Machine, phases: Phases, racing: Sequence[Choice], most: int) -> None:
    rows, alive, done = list[Observation](), list(range(len(racing))), 0
    for look in (*looks_from(3, most), most):
        rows += machine.blocks([racing[i] for i in alive], look - done, done)
        done = look
        responses = responses_of(machine.seen(racing, rows), list(map(machine.space.label, racing)))
        out = beaten([response.logs[:, alive] for response in responses], MARGINS)
        alive = [i for i, gone in zip(alive, out, strict=True) if not gone]
        if len(alive) < 3:
            break
    phases.add(machine, racing, rows)

# SPDX-License-Identifier: Apache-2.0
"""The surface over all choices: that of the textbook's formulas, right where the truth is known, and honest about its errors."""

from __future__ import annotations

import itertools

import numpy as np
from simulated_tuning import space_of

from heapyard.model.tuning import Choice
from heapyard.stats.tuning.entrants import entrants, finalists
from heapyard.stats.tuning.responses import Response
from heapyard.stats.tuning.surface import Measured, _parts, fit_surface

SPACE = space_of(3, 2, 2, 2)
ALL = tuple(itertools.product(*map(range, SPACE.counts)))
EFFECTS = [(0, -0.05, 0.02), (0, 0.03), (0, -0.04), (0, 0)]


def truth(choice: Choice) -> float:
    return sum(of[level] for of, level in zip(EFFECTS, choice, strict=True)) - 0.06 * (choice[1:3] == (1, 1))


def measured(rng: np.random.Generator, choices: tuple[Choice, ...], blocks: int, noise: float) -> Measured:
    """Two phases, the second of which lacks some trials."""
    means = np.array(list(map(truth, choices)))
    first, second = (means + rng.normal(0, 0.2, (blocks, 1)) + rng.normal(0, noise, (blocks, len(choices))) for _ in range(2))
    second[0, 1:3] = np.nan
    return [(choices, Response("wall", first)), (choices, Response("wall", second))]


def test_mean_and_covariance_are_those_of_the_whole_normal_distribution() -> None:
    """All trials at once, blocks with a variance that is large beside anything."""
    data = measured(np.random.default_rng(1), ALL[::3], 3, 0.02)
    surface = fit_surface(SPACE, data)
    noise = surface.noise
    y, of, block = [], [], []
    for phase, (choices, response) in enumerate(data):
        for line, column in np.argwhere(np.isfinite(response.logs)):
            y.append(response.logs[line, column])
            of.append(choices[column])
            block.append((phase, line))
    asked = list(ALL)

    def covariance(ones: list[Choice], others: list[Choice]) -> np.ndarray:
        return sum(v * part for v, part in zip(surface.variances, _parts(ones, others), strict=True))

    same = np.array([[one == other for other in block] for one in block])
    inverse = np.linalg.inv(covariance(of, of) + noise * np.eye(len(y)) + 1e3 * same)
    mean = covariance(asked, of) @ inverse @ np.array(y)
    spread = covariance(asked, asked) - covariance(asked, of) @ inverse @ covariance(of, asked)
    gains, apart = surface.gains(asked)
    np.testing.assert_allclose(gains, mean - mean[0], atol=1e-5)
    np.testing.assert_allclose(apart, spread - spread[:1] - spread[:, :1] + spread[0, 0], atol=1e-6)


def test_a_quiet_machine_is_believed_and_a_noisy_one_smoothed() -> None:
    rng = np.random.default_rng(2)
    for noise, furthest in ((1e-4, 0.001), (0.05, 0.03)):
        gains, _ = fit_surface(SPACE, measured(rng, ALL, 5, noise)).gains(ALL)
        assert np.abs(gains - list(map(truth, ALL))).max() < furthest


def test_errors_are_what_they_are_said_to_be() -> None:
    within = []
    for seed in range(30):
        gains, apart = fit_surface(SPACE, measured(np.random.default_rng(seed), ALL[::2], 3, 0.03)).gains(ALL)
        behind = np.abs(gains - list(map(truth, ALL)))[1:]
        within.append(np.mean(behind < 2 * np.sqrt(np.diag(apart))[1:]))
    assert 0.85 < np.mean(within) < 1


def test_a_response_that_never_changes_is_nothing_to_fail_on() -> None:
    gains, apart = fit_surface(SPACE, [(ALL, Response("peak_rss", np.zeros((2, len(ALL)))))]).gains(ALL)
    assert np.abs(gains).max() < 1e-9 and np.isfinite(apart).all()


def test_where_every_choice_failed_the_default_is_left() -> None:
    space = space_of(2, 2)
    every = tuple(itertools.product(range(2), range(2)))
    logs = np.full((3, len(every)), np.nan)
    logs[:, 0] = 1.0
    phases = [(every, Response("wall", logs))]
    assert entrants(space, (phases, phases), (0.02, 0.05), 1) == (space.default,)
    assert finalists(space, (phases, phases), (0.02, 0.05)) == ()

# SPDX-License-Identifier: Apache-2.0
"""Two modes of a service are found where they are built in, and rarely where there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from heapyard.model.experiment import Settings
from heapyard.report.load_words import two_modes
from heapyard.stats.modes import LEVEL, modes_of, modes_under_load
from heapyard.stats.tables import Table
from numpy.typing import NDArray

BASE, CONTROL = "glibc", "glibc (again)"
LABELS = (BASE, "one", CONTROL)
LOW, HIGH = 2600.0, 4950.0  # requests a second of nginx with one worker busy, or two
APART = np.log(HIGH / LOW)
SETTINGS = Settings()

Draw = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]


def table(logs: NDArray[np.float64]) -> Table:
    return Table("nginx", "request_rate", LABELS, LOW * np.exp(logs))


def found(logs: NDArray[np.float64]) -> bool:
    return modes_of(table(logs), BASE, CONTROL, SETTINGS) is not None


def rate(draw: Draw, blocks: int, times: int, seed: int = 1) -> float:
    """How often two modes are told of tables drawn at random."""
    random = np.random.default_rng(seed)
    return float(np.mean([found(draw(random, (blocks, len(LABELS)))) for _ in range(times)]))


ONE_MODE: dict[str, Draw] = {
    "normal": lambda random, shape: random.normal(0, 0.05, shape),
    "three degrees of freedom": lambda random, shape: 0.05 * random.standard_t(3, shape),
    "Cauchy": lambda random, shape: np.clip(0.05 * random.standard_t(1, shape), -50, 50),
    "skewed": lambda random, shape: 0.05 * np.exp(random.normal(0, 1, shape)),
    "uneven blocks": lambda random, shape: random.normal(0, 0.03, shape) + random.normal(0, 0.1, (shape[0], 1)),
    "two kinds of blocks": lambda random, shape: random.normal(0, 0.03, shape) + APART * (random.random((shape[0], 1)) < 0.5),
    "drift": lambda random, shape: random.normal(0, 0.03, shape) + 0.3 * np.arange(shape[0])[:, None] / shape[0],
}


@pytest.mark.parametrize("law", ONE_MODE)
@pytest.mark.parametrize("blocks", [3, 5, 12])
def test_false_alarms_are_rare(law: str, blocks: int) -> None:
    """Of 200 draws."""
    assert rate(ONE_MODE[law], blocks, 200) <= LEVEL


def mixture(share: float, noise: float) -> Draw:
    return lambda random, shape: random.normal(0, noise, shape) + APART * (random.random(shape) < share)


@pytest.mark.parametrize(
    ("blocks", "share", "noise", "power"), [(3, 0.5, 0.03, 0.15), (5, 0.5, 0.03, 0.55), (8, 0.5, 0.03, 0.9), (12, 0.3, 0.05, 0.7)]
)
def test_two_modes_are_found_with_the_power_that_is_documented(blocks: int, share: float, noise: float, power: float) -> None:
    """docs/servers.md tells it; here it may be lower by three standard errors of 200 draws."""
    assert rate(mixture(share, noise), blocks, 200) >= power


def test_the_two_levels_are_told_with_their_counts() -> None:
    """Seven trials of ten at the higher one, under the baseline and its control together."""
    fast = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]])
    wiggle = 0.02 * np.sin(np.arange(15)).reshape(5, 3)
    modes = modes_of(table(APART * fast + wiggle), BASE, CONTROL, SETTINGS)
    assert modes is not None and (modes.treatment, modes.in_low, modes.in_high) == (BASE, 3, 7)
    assert modes.low == pytest.approx(LOW, rel=0.03) and modes.high == pytest.approx(HIGH, rel=0.03)
    assert two_modes(replace(modes, low=LOW, high=HIGH, others=("jemalloc", "bfm"))) == (
        "The trials of glibc fall into two groups, 3 at about 2,600 requests/s and 7 at about 4,950 requests/s, as do those of "
        "jemalloc and bfm; the mean of a few says little."
    )
    assert "two groups by wall time, 3 at about 1 s and 7 at about 2 s;" in two_modes(
        replace(modes, metric="wall", low=1.0, high=2.0)
    )


@pytest.mark.parametrize(
    "logs",
    [
        np.zeros((5, 3)),
        np.array([[0.0, 0, 0], [0.1, 0, 0]]),  # too few
        np.arange(15.0).reshape(5, 3) * 1e-4 + np.array([0, 0, 0, 0, 3])[:, None] * np.array([1, 0, 0]),  # one outlier
        np.array([[0, 0.001, 0.002]] * 3 + [[0.008, 0.009, 0.01]] * 3) + np.arange(18).reshape(6, 3) * 1e-6,  # within the margin
    ],
    ids=["no scatter", "few", "outlier", "within the margin"],
)
def test_what_is_not_two_modes(logs: NDArray[np.float64]) -> None:
    assert not found(logs)


def test_only_servers_are_asked() -> None:
    """And of a time per request, the rate that it comes from."""
    random = np.random.default_rng(5)
    logs = mixture(0.5, 0.03)(random, (12, 3))
    settings = replace(SETTINGS, time_metric="time_per_request")
    server = [table(logs), replace(table(-logs), metric="time_per_request")]
    assert [m.metric for m in modes_under_load(server, BASE, CONTROL, settings)] == ["request_rate"]
    alone = replace(table(logs), metric="wall")
    assert modes_under_load([alone], BASE, CONTROL, SETTINGS) == ()
    assert len(modes_under_load([alone, replace(alone, metric="steady_rss")], BASE, CONTROL, SETTINGS)) == 1

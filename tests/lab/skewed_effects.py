# SPDX-License-Identifier: Apache-2.0
"""Effects of an allocator on programs as they are found: none on many, a large gain on a few, a loss here and there.

A family of distributions of differences of logs, for judging what is said of one further program.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Draw = Callable[[Generator, tuple[int, ...]], NDArray[np.float64]]


def _few_gain(share: float, mean: float) -> Draw:
    """A gain (exponential) on a share of the programs, else nothing but half a percent of noise."""

    def draw(rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return -(rng.random(shape) < share).astype(float) * rng.exponential(mean, shape) + rng.normal(0, 0.005, shape)

    return draw


def _two_sided(rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    loss = (rng.random(shape) < 0.15) * rng.exponential(0.05, shape)
    return _few_gain(0.4, 0.15)(rng, shape) + loss


FAMILY: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(-0.05, 0.1, shape),
    "t with 3 degrees of freedom": lambda rng, shape: 0.05 * rng.standard_t(3, shape),
    "exponential gains": lambda rng, shape: -rng.exponential(0.1, shape),
    "exponential losses": lambda rng, shape: rng.exponential(0.1, shape),
    "log-normal gains": lambda rng, shape: -rng.lognormal(-3, 0.6, shape),
    "long-tailed gains": lambda rng, shape: -rng.lognormal(-3, 1.0, shape),
    "gamma(0.5) gains": lambda rng, shape: -rng.gamma(0.5, 0.1, shape),
    "7 of 10 gain": _few_gain(0.7, 0.15),
    "half gain": _few_gain(0.5, 0.15),
    "3 of 10 gain": _few_gain(0.3, 0.2),
    "2 of 10 gain": _few_gain(0.2, 0.2),
    "some gain, few lose": _two_sided,
}

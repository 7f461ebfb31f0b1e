# SPDX-License-Identifier: Apache-2.0
"""The scale a response is analysed on: ln(value), or ln(value + one unit of resolution) where it may be zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.metrics import Direction, Metric, metric_named
from ..model.experiment import Settings
from .tables import Table

# What "one" is for a response that may be zero: an event, a page, or a millisecond (CPU time is accounted in ticks).
_RESOLUTION = {"1": 1.0, "B": 4096.0, "s": 1e-3}


@dataclass(frozen=True, slots=True)
class Scale:
    """y = ln(value + offset), and back."""

    offset: float

    def forward(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.log(values + self.offset)

    def back(self, y: float) -> float:
        return max(float(np.exp(min(y, 709.0))) - self.offset, 0.0)


def scale_for(metric: Metric, values: NDArray[np.float64]) -> Scale:
    """No offset for a positive response; one unit of resolution for a count, or when a zero occurs after all."""
    shifted = metric.scale == "count" or bool((values <= 0).any())
    return Scale(_RESOLUTION.get(metric.unit, 1.0) if shifted else 0.0)


def margin_of(metric: Metric, settings: Settings) -> float:
    """The equivalence margin as ratio minus one."""
    return settings.margin_memory if metric.margin == "memory" else settings.margin_time


def sign_of(direction: Direction) -> int:
    """-1 where less is better, +1 where more is better, 0 where neither is."""
    return {"lower": -1, "higher": 1, "neutral": 0}[direction]


def logs_of(table: Table) -> NDArray[np.float64]:
    """The values of a table on the scale of its metric: blocks x labels."""
    return scale_for(metric_named(table.metric), table.values).forward(table.values)

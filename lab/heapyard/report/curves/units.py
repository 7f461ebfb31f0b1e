# SPDX-License-Identifier: Apache-2.0
"""One unit for all points of a figure, so that its numbers are short and can be compared at a glance."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.analysis import Curves
from ...model.metrics import Metric

_STEPS = {
    "s": (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)),
    "B": (("B", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30)),
    "1/s": (
        ("per second", 1.0),
        ("thousand per second", 1e3),
        ("million per second", 1e6),
        ("billion per second", 1e9),
    ),
}


@dataclass(frozen=True, slots=True)
class Readable:
    """`name` of the unit shown ("" for a plain number), and how many stored units it is."""

    name: str
    size: float

    def show(self, value: float) -> str:
        """Three significant digits, without an exponent where people use none."""
        scaled = value / self.size
        return f"{scaled:,.0f}" if abs(scaled) >= 999.5 else f"{scaled:#.3g}".rstrip(".")


def readable(curves: Curves, metric: Metric) -> Readable:
    """The largest unit in which the median point is at least 1. O(points log points)."""
    if curves.figure.relative or metric.unit not in _STEPS:
        return Readable("", 1.0)
    values = sorted(p.mean.ratio for p in curves.points)
    middle = values[len(values) // 2] if values else 1.0
    name, size = next(((n, s) for n, s in reversed(_STEPS[metric.unit]) if middle >= s), _STEPS[metric.unit][0])
    return Readable(name, size)

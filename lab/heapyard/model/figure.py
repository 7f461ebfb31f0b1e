# SPDX-License-Identifier: Apache-2.0
"""A figure of a study: one response over the levels of one factor, a curve per treatment, with the paper's axes."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Figure:
    """What to draw. `metric` and `over` are names; `at` holds other workload factors at one level each.

    `relative` draws ratios to the baseline within blocks instead of values. Empty titles follow from the metric and the
    factor. `source` says where the paper shows it.
    """

    title: str
    metric: str
    over: str
    source: str = ""
    x_title: str = ""
    y_title: str = ""
    log_x: bool = False
    log_y: bool = False
    relative: bool = False
    at: dict[str, str] = field(default_factory=dict)


def is_number(level: str) -> bool:
    """Whether a level can stand on a numeric axis."""
    try:
        float(level)
    except ValueError:
        return False
    return True

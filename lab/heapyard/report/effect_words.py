# SPDX-License-Identifier: Apache-2.0
"""Effects of an allocator in words: `8.5 % ± 0.3 % less time`, `3.1 to 8.2 times faster`, `from 32 % less to 23 % more`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..model.analysis import Interval
from ..model.metrics import Metric, metric_named
from .words import bounded, change, percent, plus_minus

TIMES = 2.0  # from this factor on changes are said in times
SAYS_NOTHING = 9.995  # a half-width of that many times the baseline


def noun_of(metric: Metric) -> str:
    """What there is less or more of: `time`, `memory`, or the response's own title."""
    if metric.unit == "s" and metric.direction == "lower":
        return "time" if metric.name in ("wall", "wall_time") else metric.title
    return "memory" if metric.margin == "memory" else metric.title


def effect(interval: Interval, name: str) -> str:
    """`8.5 % ± 0.3 % less time`; from a doubling on `3.1 (2.9 to 3.3) times faster`."""
    metric = metric_named(name)
    factor = max(interval.ratio, 1 / interval.ratio) if interval.ratio > 0 else 1.0
    if factor < TIMES or not bounded(interval):
        return f"{plus_minus(interval)} {'less' if interval.ratio < 1 else 'more'} {noun_of(metric)}"
    ends = sorted((interval.low, interval.high) if interval.ratio > 1 else (1 / interval.high, 1 / interval.low))
    return f"{factor:.2g} ({ends[0]:.2g} to {ends[1]:.2g}) {_times(interval.ratio, metric)}"


def span(ratios: Sequence[float], name: str) -> str:
    """Several ratios on one side of 1: `3.1 to 8.2 times faster`, `8 % to 12 % less memory`; one alone without `to`."""
    metric = metric_named(name)
    least, most = min(ratios), max(ratios)
    less = math.sqrt(least * most) < 1
    if max(1 / least if least > 0 else math.inf, most) >= TIMES and (most < 1 or least > 1):
        factors = sorted((1 / most, 1 / least) if less else (least, most))
        return f"{_range([f'{f:.2g}' for f in factors])} {_times(least if less else most, metric)}"
    shares = [percent(s) for s in sorted((abs(least - 1), abs(most - 1)))]
    return f"{_range(shares)} {'less' if less else 'more'} {noun_of(metric)}"


def reach(interval: Interval) -> str:
    """A prediction interval: `from 32 % less to 23 % more`, `from 5.0 % to 12 % less`."""
    low, high = interval.low, interval.high
    if low < 1 < high:
        return f"from {_side(low)} to {_side(high)}"
    word = "less" if high <= 1 else "more"
    ends = sorted((abs(low - 1), abs(high - 1)))
    if max(low, high) >= 1 + TIMES:
        return f"from {_side(low)} to {_side(high)}"
    return f"from {percent(ends[0])} to {percent(ends[1])} {word}"


def change_and_half(interval: Interval) -> str:
    """For tables: `-8.5 % ±0.3`, from a doubling on `x 2.43 ±0.04`; without ± where one block bounds nothing.

    `-8.5 % ±>10x` where the half-width is ten times the baseline or more, which says nothing.
    """
    if not bounded(interval):
        return change(interval.ratio)
    half = (interval.high - interval.low) / 2
    if half >= SAYS_NOTHING:
        return f"{change(interval.ratio)} ±>10x"
    if interval.ratio >= TIMES:
        return f"{change(interval.ratio)} ±{half:.2g}"
    return f"{change(interval.ratio)} ±{half * 100:.{1 if half < 0.0995 else 0}f}"


def _side(ratio: float) -> str:
    if ratio >= 1 + TIMES:
        return f"{ratio:.2g} times as much"
    return f"{percent(ratio - 1)} {'less' if ratio < 1 else 'more'}"


def _times(ratio: float, metric: Metric) -> str:
    if metric.unit == "s":
        return "times faster" if ratio < 1 else "times slower"
    return f"times {'less' if ratio < 1 else 'the'} {noun_of(metric)}"


def _range(words: Sequence[str]) -> str:
    first, last = words[0], words[-1]
    return first if first == last else f"{first} to {last}"

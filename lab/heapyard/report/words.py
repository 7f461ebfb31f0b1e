# SPDX-License-Identifier: Apache-2.0
"""Numbers of an analysis in words: shares, intervals, marks. Guards against what one block leaves unbounded."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..model.analysis import Comparison, Interval, Verdict
from ..model.metrics import Metric

VERDICT_WORDS: dict[Verdict, str] = {
    "better": "better",
    "worse": "worse",
    "equivalent": "same",
    "undecided": "undecided",
}
VERDICT_SIGNS: dict[Verdict, str] = {"better": "+", "worse": "-", "equivalent": "=", "undecided": "?"}


def bounded(interval: Interval) -> bool:
    """Whether both ends say something (with one block they are 0 and infinity)."""
    return math.isfinite(interval.ratio) and interval.low > 0 and math.isfinite(interval.high)


def percent(share: float) -> str:
    """A share as a percentage with the digits it deserves: `0.4 %`, `3.1 %`, `12 %`, `250 %`."""
    if not math.isfinite(share):
        return "?"
    value = abs(share) * 100
    return f"{value:.1f} %" if value < 9.95 else f"{value:.0f} %"


def ratio(value: float) -> str:
    """A ratio with three decimals, or fewer where it is large: `0.968`, `1.23`, `14.1`, `1042`, `>9999`."""
    if not math.isfinite(value):
        return "?"
    if value >= 999.5:
        return f"{value:.0f}" if value < 9999.5 else ">9999"
    return f"{value:.3f}" if value < 2 else f"{value:.2f}" if value < 10 else f"{value:.3g}"


def change(value: float) -> str:
    """A ratio as a signed change: `-3.1 %`, `+12 %`; beyond a doubling as a factor: `x 2.4`."""
    if not math.isfinite(value):
        return "?"
    if value >= 2:
        return f"x {ratio(value)}"
    sign = "+" if value >= 1 else "-"
    return f"{sign}{percent(value - 1)}"


def plus_minus(interval: Interval) -> str:
    """`3.1 % ± 0.7 %` when the interval is even about the estimate, else `3.1 % (2.2 % to 4.3 %)`; of |change|.

    Both numbers have the same decimals, as many as the half-width deserves: `12 % ± 1 %`, `36.9 % ± 0.6 %`.
    """
    middle = abs(interval.ratio - 1)
    if not bounded(interval):
        return percent(middle)
    below, above = interval.ratio - interval.low, interval.high - interval.ratio
    widest = max(below, above)
    if abs(above - below) <= 0.25 * widest or widest < 0.0005:
        decimals = 0 if widest >= 0.0995 or (widest >= 0.0095 and middle >= 0.0995) else 1
        return f"{middle * 100:.{decimals}f} % ± {widest * 100:.{decimals}f} %"
    ends = sorted((abs(interval.low - 1), abs(interval.high - 1)))
    if (interval.low - 1) * (interval.high - 1) < 0:
        return f"{percent(middle)} ({change(interval.low)} to {change(interval.high)})"
    return f"{percent(middle)} ({percent(ends[0])} to {percent(ends[1])})"


def interval_text(interval: Interval) -> str:
    """`0.968 [0.961, 0.975]`, without the brackets where they would be unbounded."""
    if not bounded(interval):
        return ratio(interval.ratio)
    return f"{ratio(interval.ratio)} [{ratio(interval.low)}, {ratio(interval.high)}]"


def sentence(title: str) -> str:
    """A title as the start of a sentence: abbreviations keep their capitals."""
    return title[:1].upper() + title[1:]


def direction_text(metric: Metric) -> str:
    return {"lower": "lower is better", "higher": "higher is better", "neutral": "neither is better"}[metric.direction]


def phrase(comparison: Comparison, less: str, more: str) -> str:
    """`3.1 % ± 0.7 % faster`: the change with the word for its direction."""
    word = less if comparison.interval.ratio < 1 else more
    return f"{plus_minus(comparison.interval)} {word}"


def plain(text: str) -> str:
    """Text of others, made safe for a terminal: nothing in it can move the cursor or change colours."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def listed(names: Sequence[str], most: int = 3) -> str:
    """`a, b and c`; of more than `most` the first ones and how many others."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

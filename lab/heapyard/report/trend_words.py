# SPDX-License-Identifier: Apache-2.0
"""Growth, scaling and ranks in words, for the page and the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..model.analysis import Ranking, Scaling, Trend
from ..model.metrics import metric_named
from ..model.units import format_value
from .anova_words import p_text

LAWS = {"constant": "constant", "log": "log n", "linear": "n", "n log n": "n log n", "quadratic": "n²"}


def law_of(trend: Trend) -> str:
    """`O(n)`, or `cannot tell`."""
    return f"O({LAWS[trend.answer]})" if trend.answer in LAWS else trend.answer


def slope_of(trend: Trend) -> str:
    s = trend.slope
    return "" if math.isnan(s.value) else f"{s.value:.2f} ({s.low:.2f} to {s.high:.2f})"


def support_of(trend: Trend) -> str:
    """The laws that share the support, best first: `n 93 %, n log n 7 %`."""
    return ", ".join(f"{LAWS[name]} {100 * weight:.0f} %" for name, weight in trend.weights if weight >= 0.005)


def expected_of(trend: Trend) -> str:
    """`412 ms (380 ms to 447 ms) at 2,400,000`."""
    unit = metric_named(trend.metric).unit
    e = trend.expected
    if not all(map(math.isfinite, (e.value, e.low, e.high))):
        return ""
    return f"{format_value(e.value, unit)} ({format_value(e.low, unit)} to {format_value(e.high, unit)}) at {trend.at:,.0f}"


def trends_by_figure(trends: Sequence[Trend]) -> dict[str, list[Trend]]:
    found: dict[str, list[Trend]] = {}
    for trend in trends:
        found.setdefault(trend.figure, []).append(trend)
    return found


def refusals(scalings: Sequence[Scaling]) -> list[str]:
    """Why laws of scaling were not fitted, each reason once."""
    return list(dict.fromkeys(s.reason for s in scalings if s.reason))


def ranking_heading(ranking: Ranking) -> str:
    title = metric_named(ranking.metric).title
    return (
        f"{title}: mean rank over {ranking.workloads} programs (1 is best); Friedman's p {p_text(ranking.p)}; "
        f"critical difference {ranking.critical_difference:.2f} (Nemenyi)"
    )

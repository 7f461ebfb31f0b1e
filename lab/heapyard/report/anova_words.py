# SPDX-License-Identifier: Apache-2.0
"""Tables of analysis of variance in words: which sources matter, and what the residuals warn of."""

from __future__ import annotations

import math

from ..model.analysis import Anova, AnovaRow
from ..model.metrics import metric_named

STRAIGHT, FAR, RELATED, UNLIKELY = 0.98, 4.5, 0.2, 0.001  # beyond these the residuals deserve a sentence
MOST_OUTLIERS = 5  # named in a sentence


def p_text(p: float) -> str:
    """`0.012`, or `< 0.0001`."""
    return "" if math.isnan(p) else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def size_text(row: AnovaRow) -> str:
    """Omega squared as a share: how much of the variation not explained otherwise is this source's."""
    return "" if math.isnan(row.omega_squared) else f"{100 * max(row.omega_squared, 0.0):.1f} %"


def number(value: float) -> str:
    """Four significant digits."""
    return "" if math.isnan(value) else "inf" if math.isinf(value) else f"{value:.4g}"


def heading(anova: Anova) -> str:
    title = metric_named(anova.metric).title
    return f"{title}: log response over {' x '.join(anova.factors)}, {anova.cells} cells in {anova.rounds} rounds"


def warnings(anova: Anova) -> list[str]:
    """What the residuals say against the model, one sentence each; nothing was left out because of it."""
    found = []
    if anova.straightness < STRAIGHT:
        found.append(
            f"the residuals are not normal (probability plot correlation {anova.straightness:.3f}): trust large effects, "
            "not small p-values"
        )
    if anova.largest > FAR:
        found.append(f"the largest residual lies {anova.largest:.1f} standard deviations out; look at the single trials")
    if anova.scatter_p < UNLIKELY:
        found.append(
            f"allocators scatter unequally (Levene's p {p_text(anova.scatter_p)}): letters of those that scatter little are "
            "too cautious, of those that scatter much too bold"
        )
    if anova.place_p <= UNLIKELY:  # the least that 999 shuffles can give
        found.append(f"the place of a trial within its block matters (p {p_text(anova.place_p)} by shuffling)")
    if anova.outliers:
        shown = ", ".join(f"{o.trial} ({o.studentized:+.1f} sd)" for o in anova.outliers[:MOST_OUTLIERS])
        more = f" and {len(anova.outliers) - MOST_OUTLIERS} more" if len(anova.outliers) > MOST_OUTLIERS else ""
        found.append(f"outlying trials, none of which is left out: {shown}{more}")
    if abs(anova.drift) > RELATED:
        found.append(f"neighbouring trials resemble each other (correlation {anova.drift:.2f})")
    return found

"""Tables of analysis of variance in words: which sources matter, and what the residuals warn of."""

from __future__ import annotations

import math

from ..model.analysis import Anova, AnovaRow
from ..model.metrics import metric_named

STRAIGHT, FAR, RELATED = 0.98, 4.5, 0.2  # beyond these the residuals deserve a sentence


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
    if abs(anova.drift) > RELATED:
        found.append(f"neighbouring trials resemble each other (correlation {anova.drift:.2f})")
    return found

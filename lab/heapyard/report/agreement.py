# SPDX-License-Identifier: Apache-2.0
"""Whether ranks and analysis of variance agree with the verdict; if not, one line says why."""

from __future__ import annotations

from ..model.analysis import Analysis, Ranking
from ..model.metrics import metric_named
from .words import listed


def ranks_and_means(analysis: Analysis) -> str:
    """Do the ranks put the same treatments apart from the baseline as the means? "" without ranks."""
    return " ".join(
        _compared(analysis, r.metric, {row.treatment: row.letters for row in r.rows}, _why_ranks(r)) for r in analysis.rankings
    )


def variance_and_verdict(analysis: Analysis) -> str:
    """The same of Tukey's groups in the analysis of variance; "" without any."""
    why = (
        "it pools the noise of all cells and knows no margin, the verdict takes each "
        f"{analysis.workload_noun}'s own noise and calls small differences the same"
    )
    found = [_compared(analysis, a.metric, {m.treatment: m.letters for m in a.means}, why) for a in analysis.anovas]
    for by in analysis.by_level:
        if by.depends:
            title = metric_named(by.metric).title
            found.append(f"On {title} the effect depends on {by.factor} for {listed(by.depends)}: a mean over all cells hides it.")
    return " ".join(found)


def _apart(letters: dict[str, str], baseline: str) -> set[str]:
    return {t for t, own in letters.items() if t != baseline and not set(own) & set(letters.get(baseline, ""))}


def _compared(analysis: Analysis, metric: str, letters: dict[str, str], why: str) -> str:
    apart = _apart(letters, analysis.baseline)
    overall = analysis.over_all(metric)
    title = metric_named(metric).title
    if overall is None:
        return ""
    named = {c.treatment for c in overall.comparisons if c.verdict in ("better", "worse")}
    if apart == named:
        return f"On {title} this agrees with the verdict."
    parts = []
    if more := sorted(apart - named):
        parts.append(f"sets {listed(more)} apart too")
    if fewer := sorted(named - apart):
        parts.append(f"does not set {listed(fewer)} apart")
    return f"On {title} this {' and '.join(parts)}: {why}."


def _why_ranks(ranking: Ranking) -> str:
    return f"it takes the {ranking.workloads} programs for a sample and asks who is ahead, not by how much"

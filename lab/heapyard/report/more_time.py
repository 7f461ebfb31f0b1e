# SPDX-License-Identifier: Apache-2.0
"""What more measuring would bring, in minutes: said where it is true, and what it would not bring."""

from __future__ import annotations

from statistics import median

from ..model.analysis import Analysis
from ..model.units import counted, format_duration
from .words import bounded, percent

MOST_OF_IT = 0.5  # share of the variance from which on one workload is named


def what_would_decide(analysis: Analysis) -> str:
    """`About 12 more rounds (8 min) would decide, most of all on python.` for what is open over all workloads; "" if nothing."""
    more = [
        c.blocks_to_decide for o in analysis.overall if o.metric in analysis.primary for c in o.comparisons
        if c.blocks_to_decide
    ]  # fmt: skip
    if not more:
        return ""
    if _by_machine(analysis):
        return ""
    single = len({c.workload for c in analysis.cells}) == 1
    rounds = counted(max(more), "block" if single else "round").replace(" ", " more ", 1)
    lasting = f" ({format_duration(max(more) * analysis.round_seconds)})" if analysis.round_seconds else ""
    return f"About {rounds}{lasting} would decide{_noisiest(analysis)}."


def more_time(analysis: Analysis) -> str:
    """One sentence: what is open and how long it would take at most."""
    time = analysis.over_all(analysis.time)
    if time is None or not any(bounded(c.interval) for c in time.comparisons) or _by_machine(analysis):
        return ""
    decide = what_would_decide(analysis)
    if decide:
        return decide
    if len(time.workloads) == 1:
        return "More time would settle nothing: every allocator is decided here."
    open_ = [c for cell in analysis.cells if cell.metric in analysis.primary for c in cell.comparisons if c.verdict == "undecided"]
    every = sum(len(cell.comparisons) for cell in analysis.cells if cell.metric in analysis.primary)
    if open_:
        longest = max((c.blocks_to_decide or 0) * analysis.round_seconds for c in open_)
        lasting = f" ({format_duration(longest)} more)" if longest else ""
        return f"All is decided here; {len(open_)} of {every} single comparisons are open{lasting}."
    return "All is decided here: more time would settle nothing."


def _by_machine(analysis: Analysis) -> bool:
    """Whether ratios depend on the machine: what is open over all machines is then no question of time."""
    return analysis.machines is not None and any(analysis.machines.depends(m) for m in analysis.primary)


def _noisiest(analysis: Analysis) -> str:
    time = analysis.over_all(analysis.time)
    if time is None or len(time.workloads) < 2 or time.noisiest_share < MOST_OF_IT:
        return ""
    return f", most of all on {time.noisiest}, which brings {round(100 * time.noisiest_share)} % of the uncertainty"


def four_times(analysis: Analysis) -> str:
    """What four times the budget would bring, before the command for it: narrower intervals of what was measured, since only
    the noise of trials makes these wide, and nothing for another program."""
    time = analysis.over_all(analysis.time)
    halves = [(c.interval.high - c.interval.low) / 2 for c in time.comparisons if bounded(c.interval)] if time else []
    if not halves:
        return "Its budget ended it; more time goes on"
    return f"Four times the budget would bring ±{percent(median(halves) / 2)} of time in place of ±{percent(median(halves))}"

"""The answer in one sentence, put first everywhere."""

from __future__ import annotations

from ..model.analysis import Analysis, Comparison, Overall
from ..model.metrics import PRIMARY_MEMORY, PRIMARY_TIME
from .words import bounded, phrase


FEASIBLE = 300  # blocks that a person might wait for


def verdict(analysis: Analysis) -> str:
    """One sentence (two where a warning must come first) that says what was found and how sure it is. O(treatments)."""
    warning = ""
    if analysis.control.differs:
        warning = f"Do not trust this yet: {analysis.baseline} differs from itself in the A/A control. "
    time, memory = analysis.over_all(PRIMARY_TIME), analysis.over_all(PRIMARY_MEMORY)
    if time is None or not time.comparisons:
        return warning + _without_comparison(analysis)
    return warning + _best(analysis, time, memory)


def _without_comparison(analysis: Analysis) -> str:
    if analysis.failures and not analysis.cells:
        first = analysis.failures[0]
        return f"Nothing could be measured: {first.treatment} on {first.workload}: {first.reason}."
    if not analysis.cells:
        return "Nothing was measured: no block was completed."
    if len(analysis.treatments) < 2:
        return f"Only {analysis.baseline} was measured: there is nothing to compare it with."
    return f"No program was measured under both {analysis.baseline} and another allocator; see the failures."


def _best(analysis: Analysis, time: Overall, memory: Overall | None) -> str:
    base, where = analysis.baseline, _where(time)
    by_memory = {c.treatment: c for c in memory.comparisons} if memory else {}
    if not any(bounded(c.interval) for c in time.comparisons):
        return f"One block shows values but no uncertainty; measure more blocks to compare with {base}{where}."
    good = [c for c in time.comparisons if c.verdict == "better"]
    lean = [c for c in by_memory.values() if c.verdict == "better"]
    if not good and not lean:
        return _none_better(analysis, time, memory, where)
    both = [c for c in good if (m := by_memory.get(c.treatment)) and m.verdict == "better"]
    chosen = min(both or good or lean, key=lambda c: c.interval.ratio)
    parts = []
    if (t := next((c for c in time.comparisons if c.treatment == chosen.treatment), None)) is not None:
        parts.append(_time(t))
    if (m := by_memory.get(chosen.treatment)) is not None:
        parts.append(_memory(m))
    rivals = [p.treatment for p in analysis.pareto if p.on_front and p.treatment != chosen.treatment]
    return f"{chosen.treatment}: {' and '.join(parts)} than {base}{where}; {_rest(analysis, chosen, rivals)}."


def _time(c: Comparison) -> str:
    if c.verdict in ("better", "worse"):
        return phrase(c, "faster", "slower")
    return "as fast" if c.verdict == "equivalent" else f"time undecided ({phrase(c, 'less', 'more')})"


def _memory(c: Comparison) -> str:
    if c.verdict in ("better", "worse"):
        return phrase(c, "less memory", "more memory")
    return "the same memory" if c.verdict == "equivalent" else f"memory undecided ({phrase(c, 'less', 'more')})"


def _rest(analysis: Analysis, chosen: Comparison, rivals: list[str]) -> str:
    beaten = [p for p in analysis.pareto if p.treatment == chosen.treatment and not p.on_front]
    if beaten:
        return f"others are ahead in both: see {', '.join(rivals[:3])}"
    others = [r for r in rivals if r != analysis.baseline]
    if not rivals:
        return "no allocator is better in time or in memory"
    if not others:
        return f"no allocator is better in both, though {analysis.baseline} is ahead in one"
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    trade = "trades" if len(others) == 1 else "trade"
    return f"no allocator is better in both; {', '.join(others[:3])}{more} {trade} one for the other"


def _none_better(analysis: Analysis, time: Overall, memory: Overall | None, where: str) -> str:
    base = analysis.baseline
    every = [*time.comparisons, *(memory.comparisons if memory else ())]
    if all(c.verdict == "equivalent" for c in every):
        return f"No allocator differs from {base} by more than the margin{where}: there is no reason to switch."
    if all(c.verdict in ("worse", "equivalent") for c in every):
        return f"Stay with {base}: no allocator is better in time or in memory{where}."
    open_ = [c for c in every if c.verdict == "undecided"]
    more = [
        cell.blocks_to_decide
        for c in analysis.cells
        if c.metric in (PRIMARY_TIME, PRIMARY_MEMORY)
        for cell in c.comparisons
        if cell.blocks_to_decide
    ]
    advice = ""
    if more:
        advice = f"; about {max(more)} more blocks would decide" if max(more) <= FEASIBLE else "; this machine is too noisy to decide soon"
    names = ", ".join(dict.fromkeys(c.treatment for c in open_))
    return f"No allocator is shown to be better than {base}{where}; undecided: {names}{advice}."


def _where(overall: Overall) -> str:
    return f" on {overall.workloads[0]}" if len(overall.workloads) == 1 else f" over {len(overall.workloads)} programs"

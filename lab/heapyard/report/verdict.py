"""The answer in one sentence, put first everywhere."""

from __future__ import annotations

from collections import Counter

from ..model.analysis import Analysis, Comparison, Overall, Verdict
from ..model.metrics import metric_named
from .words import bounded, listed, phrase


def verdict(analysis: Analysis) -> str:
    """One sentence (two where a warning must come first): what was found and how sure it is. O(treatments x cells)."""
    time, memory = analysis.over_all(analysis.time), analysis.over_all(analysis.memory)
    if time is None or not time.comparisons:
        return _warning(analysis) + _without_comparison(analysis)
    return _warning(analysis) + _best(analysis, time, memory)


def _warning(analysis: Analysis) -> str:
    if analysis.control.clean:
        return ""
    where = listed([f"{metric_named(metric).title} of {workload}" for workload, metric in analysis.control.differs], 2)
    return f"Do not trust this yet: {analysis.baseline} differs from itself in the A/A control ({where}). "


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
    base, where = analysis.baseline, _where(analysis, time)
    by_time = {c.treatment: c for c in time.comparisons}
    by_memory = {c.treatment: c for c in memory.comparisons} if memory else {}
    if not any(bounded(c.interval) for c in time.comparisons):
        return f"One block shows values but no uncertainty; measure more blocks to compare with {base}{where}."
    fast = [c for c in by_time.values() if c.verdict == "better"]
    lean = [c for c in by_memory.values() if c.verdict == "better"]
    if not fast and not lean:
        return _none_better(analysis, time, memory, where)
    both = [c for c in fast if (m := by_memory.get(c.treatment)) and m.verdict == "better"]
    chosen = min(both or fast or lean, key=lambda c: c.interval.ratio).treatment
    found = _gain(by_time.get(chosen), by_memory.get(chosen), f"{base}{where}")
    return f"{chosen}: {found}; {_rest(analysis, chosen)}."


def _gain(time: Comparison | None, memory: Comparison | None, base: str) -> str:
    """What an allocator that is better in time, memory or both gains and pays; the better side first."""
    if time is not None and time.verdict == "better":
        first, second, words = phrase(time, "faster", "slower"), memory, ("less memory", "more memory")
        equal, open_ = "with the same memory within the margin", "its memory is undecided"
    else:
        assert memory is not None, "something is better"
        first, second, words = phrase(memory, "less memory", "more memory"), time, ("faster", "slower")
        equal, open_ = "and as fast within the margin", "its time is undecided"
    if second is None:
        return f"{first} than {base}"
    match second.verdict:
        case "better" | "worse":
            link = "and" if second.verdict == "better" else "but"
            return f"{first} {link} {phrase(second, *words)} than {base}"
        case "equivalent":
            return f"{first} than {base} {equal}"
        case _:
            return f"{first} than {base}, {open_} ({phrase(second, *words)})"


def _rest(analysis: Analysis, chosen: str) -> str:
    """How the others stand to the chosen one, by point estimates in time and memory together."""
    front = [p.treatment for p in analysis.pareto if p.on_front]
    rivals = [t for t in front if t != chosen]
    if front and chosen not in front:
        return f"ahead in both, if not beyond doubt: {listed(rivals)}"
    if not rivals:
        return "no allocator is better in time or in memory"
    others = [t for t in rivals if t != analysis.baseline]
    if not others:
        return "no allocator is better in both"
    return f"no allocator is better in both; {listed(others)} {'trades' if len(others) == 1 else 'trade'} one for the other"


def _none_better(analysis: Analysis, time: Overall, memory: Overall | None, where: str) -> str:
    base = analysis.baseline
    every = [*time.comparisons, *(memory.comparisons if memory else ())]
    if all(c.verdict == "equivalent" for c in every):
        return f"No allocator differs from {base} by more than the margin{where}: there is no reason to switch."
    open_ = list(dict.fromkeys(c.treatment for c in every if c.verdict == "undecided"))
    if not open_:
        return f"Stay with {base}: no allocator is better in time or in memory{where}."
    total = len(time.comparisons)
    who = ", ".join(open_) if len(open_) <= 3 else f"{len(open_)} of {total}"
    hint = _blocks(analysis, time) if len(time.workloads) == 1 else _single_programs(analysis)
    return f"No allocator is shown to be better than {base}{where}; undecided: {who}{hint}."


def _blocks(analysis: Analysis, time: Overall) -> str:
    """How many further blocks would settle all that is open on the one program."""
    more = [
        c.blocks_to_decide
        for cell in analysis.cells
        if cell.metric in analysis.primary and cell.workload in time.workloads
        for c in cell.comparisons
        if c.blocks_to_decide
    ]
    return f"; about {max(more)} more {'block' if max(more) == 1 else 'blocks'} would decide" if more else ""


def _single_programs(analysis: Analysis) -> str:
    """Who does best on single programs, where the mean over all of them is open."""
    counts: dict[str, Counter[Verdict]] = {}
    for cell in analysis.cells:
        if cell.metric == analysis.time:
            for c in cell.comparisons:
                counts.setdefault(c.treatment, Counter())[c.verdict] += 1
    best = max(counts, key=lambda t: counts[t]["better"] - counts[t]["worse"], default="")
    if not best or counts[best]["better"] <= counts[best]["worse"]:
        return ""
    found = counts[best]
    slower = f"slower on {found['worse']}" if found["worse"] else "slower on none"
    return f"; {best} is faster on {found['better']} of {analysis.counted(found.total())} and {slower}"


def _where(analysis: Analysis, overall: Overall) -> str:
    several = f" over {analysis.counted(len(overall.workloads))}"
    return f" on {overall.workloads[0]}" if len(overall.workloads) == 1 else several

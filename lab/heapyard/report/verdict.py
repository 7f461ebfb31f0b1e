# SPDX-License-Identifier: Apache-2.0
"""The answer in sentences, put first everywhere: who, how much time, how much memory, and where it does not hold."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..model.analysis import Analysis, ByLevel, Comparison, Overall
from ..model.metrics import metric_named
from ..model.preference import BY_TIME, Preference
from ..model.simulation import Simulated
from ..model.units import counted
from .another_program import another_program
from .choice import choose, dominated, others_chosen, sides
from .effect_words import SAYS_NOTHING, effect, noun_of
from .level_words import dependence, effects_in_words, gainers
from .machine_words import by_machine, over_machines
from .more_time import what_would_decide
from .words import bounded, change, listed, percent

MOST_NAMED = 3
LEAST_SHOWN = 0.0005  # of a share: less shows as 0.0 %
NEARLY_ALL = 0.9  # of a response: who cannot exclude that so much is saved excludes nothing


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer, part by part; each one or two sentences, "" where there is nothing to say.

    `alarm`: why not to trust it. `headline`: on what was measured. `another`: on another program. `choices`: what other
    preferences name. `out`: allocators that lose whatever one prefers.
    """

    alarm: str
    headline: str
    another: str = ""
    choices: str = ""
    out: str = ""


def verdict(analysis: Analysis, preference: Preference = BY_TIME) -> str:
    """What was found and how sure it is, on what was measured and on another program. O(treatments^2 + cells)."""
    found = answered(analysis, preference)
    return " ".join(part for part in (found.alarm, found.headline, found.another) if part)


def headline(analysis: Analysis, preference: Preference = BY_TIME) -> str:
    """The verdict without what it says of another program: for lists of experiments."""
    found = answered(analysis, preference)
    return f"{found.alarm} {found.headline}".strip()


def answered(analysis: Analysis, preference: Preference = BY_TIME) -> Answer:
    """Every part of the answer; its headline says so where nothing was measured. O(treatments^2 + cells)."""
    found = _answered(analysis, preference)
    return replace(found, headline=labelled(found.headline, analysis.simulated))


def labelled(text: str, simulated: Simulated) -> str:
    """`Simulated on a server with 64 cores: ...`; the text alone where it is of a real machine."""
    return f"Simulated on a {simulated.words}: {text}" if simulated.wanted else text


def _answered(analysis: Analysis, preference: Preference) -> Answer:
    time, memory = analysis.over_all(analysis.time), analysis.over_all(analysis.memory)
    if time is None or not time.comparisons:
        return Answer(_alarm(analysis), _without_comparison(analysis))
    if not any(bounded(c.interval) for c in time.comparisons):
        base = f"{analysis.baseline} {_where(analysis, time)}"
        return Answer("", f"One block shows values but no uncertainty; measure more blocks to compare with {base}.")
    out = _out(analysis)
    by, chosen = dependence(analysis, preference), choose(analysis, preference)
    if by is not None and (chosen is None or chosen in by.depends):
        return Answer(_alarm(analysis), _by_level(analysis, by), out=out)
    if told := by_machine(analysis, preference):
        return Answer(_alarm(analysis), told, out=out)
    headline = _gain(analysis, chosen, time) if chosen else _none_better(analysis, time, memory, preference)
    choices = _choices(analysis, preference, chosen)
    return Answer(_alarm(analysis), headline, another_program(analysis, chosen), choices, out)


def _alarm(analysis: Analysis) -> str:
    if not analysis.control.alarming:
        return ""
    where = listed([control_place(analysis, *place) for place in analysis.control.misleads], 2)
    return f"Do not trust this yet: {analysis.baseline} differs from itself in the A/A control ({where})."


def control_place(analysis: Analysis, workload: str, metric: str) -> str:
    """`wall time of jq, 3.1 %`: where the control differs, and by how much."""
    overall = analysis.over_all(metric)
    cell = analysis.cell(workload, metric)
    found = cell.control if cell is not None else overall.control if overall is not None else None
    size = f", {percent(found.interval.ratio - 1)}" if found is not None else ""
    return f"{metric_named(metric).title} of {workload or f'all {analysis.workload_noun}s together'}{size}"


def _without_comparison(analysis: Analysis) -> str:
    if analysis.failures and not analysis.cells:
        first = analysis.failures[0]
        return f"Nothing could be measured: {first.treatment} on {first.workload}: {first.reason}."
    if not analysis.cells:
        return "Nothing was measured: no block was completed."
    if len(analysis.treatments) < 2:
        return f"Only {analysis.baseline} was measured: there is nothing to compare it with."
    return f"No program was measured under both {analysis.baseline} and another allocator; see the failures."


def _gain(analysis: Analysis, chosen: str, time: Overall) -> str:
    """`mimalloc: 8.5 % ± 0.3 % less time than glibc on these 8 programs, 6.1 % ± 0.1 % more memory; faster on 5, ...`."""
    first, second = sides(analysis, chosen)
    if first is None or first.verdict != "better":
        first, second = second, first
    assert first is not None, "a chosen allocator is better in one"
    said = f"{chosen}: {effect(first.interval, first.metric)} than {analysis.baseline} {_where(analysis, time)}"
    return f"{said}{_price(analysis, second)}{_on_single(analysis, first)}."


def _price(analysis: Analysis, second: Comparison | None) -> str:
    if second is None:
        return ""
    noun = noun_of(metric_named(second.metric))
    by = analysis.level_effects(second.metric)
    if by is not None and second.treatment in by.depends:
        return f"; {noun}: {effects_in_words(by, second.treatment)}"
    if told := over_machines(analysis, second):
        return f", {told}"
    match second.verdict:
        case "equivalent":
            return f", with the same {noun} within the margin"
        case "undecided":
            return f", its {noun} undecided ({effect(second.interval, second.metric)})"
        case _:
            return f", {effect(second.interval, second.metric)}"


def _on_single(analysis: Analysis, found: Comparison) -> str:
    """Where it holds and where not: `; better on 5, worse on none`. "" with one workload."""
    cells = [c for c in analysis.cells if c.metric == found.metric]
    verdicts = {c.workload: v.verdict for c in cells for v in c.comparisons if v.treatment == found.treatment}
    if len(verdicts) < 2:
        return ""
    better = sum(v == "better" for v in verdicts.values())
    worse = [w for w, v in verdicts.items() if v == "worse"]
    if not better and not worse:
        return f"; on no {analysis.workload_noun} alone beyond doubt"
    more, less = ("faster", "slower") if noun_of(metric_named(found.metric)) == "time" else ("better", "worse")
    lost = f"{len(worse)} ({listed(worse, MOST_NAMED)})" if worse else "none"
    return f"; {more} on {better}, {less} on {lost}"


def _none_better(analysis: Analysis, time: Overall, memory: Overall | None, preference: Preference) -> str:
    base, where = analysis.baseline, _where(analysis, time)
    every = [*time.comparisons, *(memory.comparisons if memory else ())]
    excluded = _excluded(analysis, [o for o in (time, memory) if o is not None])
    if all(c.verdict == "equivalent" for c in every):
        return f"No allocator differs from {base} by more than the margin {where}: there is no reason to switch. {excluded}"
    gains = [t for t in analysis.treatments if any(c and c.verdict == "better" for c in sides(analysis, t))]
    if gains:
        verb = "gains" if len(gains) == 1 else "gain"
        others = f"{listed(gains)} {verb} otherwise, at a price or in doubt"
        return f"No allocator is better {where} by {_wish(preference)}; {others}. {excluded}"
    open_ = list(dict.fromkeys(c.treatment for c in every if c.verdict == "undecided"))
    if not open_:
        return f"Stay with {base}: no allocator is better in time or in memory {where}. {excluded}"
    who = listed(open_, MOST_NAMED) if len(open_) <= MOST_NAMED else f"{len(open_)} of {len(time.comparisons)}"
    decide = what_would_decide(analysis)
    return f"No allocator is shown to be better than {base} {where}; undecided: {who}. {excluded}{' ' if decide else ''}{decide}"


def _wish(preference: Preference) -> str:
    limit = preference.memory_limit
    return preference.prefer if limit is None else f"{preference.prefer}, at most {percent(limit)} more memory"


def _excluded(analysis: Analysis, overall: list[Overall]) -> str:
    """`None saves more than 1.9 % of time or 3.0 % of memory.`: the most that the data allow for, all together.

    `So few blocks exclude no gain in time.` of a response for which they allow nearly anything.
    """
    parts: list[str] = []
    open_: list[str] = []
    for one in overall:
        described = metric_named(one.metric)
        if described.direction == "higher":
            verb, most, nothing = "gains", max(c.simultaneous.high for c in one.comparisons) - 1, SAYS_NOTHING
        else:
            verb, most, nothing = "saves", 1 - min(c.simultaneous.low for c in one.comparisons), NEARLY_ALL
        if not most < nothing:
            open_.append(noun_of(described))
            continue
        said = f"{verb} {_saves(most, noun_of(described))}"
        parts.append(said.removeprefix("saves ") if parts and parts[0].startswith("saves") else said)
    told = [f"None {' or '.join(parts)}."] if parts else []
    return " ".join([*told, f"So few blocks exclude no gain in {' or '.join(open_)}."] if open_ else told)


def _saves(most: float, noun: str) -> str:
    """`more than 1.9 % of time`; `any time` where the data allow for nothing that shows."""
    return f"more than {percent(most)} of {noun}" if most >= LEAST_SHOWN else f"any {noun}"


def _by_level(analysis: Analysis, by: ByLevel) -> str:
    """The headline of a study whose effects depend on a level: one treatment level by level, then how many do likewise."""
    noun = noun_of(metric_named(by.metric))
    ahead = gainers(by)
    if not ahead:
        lost = [t for t in dict.fromkeys(e.treatment for e in by.effects) if any(e.verdict == "worse" for e in by.of(t))]
        rest = f"; {listed(lost, MOST_NAMED)} {'lose' if len(lost) > 1 else 'loses'} at some" if lost else ""
        return f"No allocator is shown to be better than {analysis.baseline} in {noun} at any level of {_name(by)}{rest}."
    first = ahead[0]
    said = f"{first} against {analysis.baseline}: {effects_in_words(by, first)}"
    time, memory = sides(analysis, first)
    price = _price(analysis, time if by.metric == analysis.memory else memory)
    also = ahead[1:]
    rest = f" {listed(also, MOST_NAMED)} {'gain' if len(also) > 1 else 'gains'} at some level too." if also else ""
    return f"{said}{price}.{rest}"


def _name(by: ByLevel) -> str:
    return by.factor.replace("_", " ")


def _choices(analysis: Analysis, preference: Preference, chosen: str | None) -> str:
    """`Least memory: jemalloc (-4.1 % memory, -7.4 % time).`"""
    words = {"time": "Least time", "memory": "Least memory", "balance": "Better in one, worse in none"}
    said = []
    for prefer, treatment in others_chosen(analysis, preference, chosen):
        time, memory = sides(analysis, treatment)
        found = [c for c in ((memory, time) if prefer == "memory" else (time, memory)) if c is not None]
        changes = ", ".join(
            over_machines(analysis, c) or f"{change(c.interval.ratio)} {noun_of(metric_named(c.metric))}" for c in found
        )
        said.append(f"{words[prefer]}: {treatment} ({changes}).")
    return " ".join(said)


def _out(analysis: Analysis) -> str:
    """`Out, beaten in time or memory and better in none: scudo, tbbmalloc (by glibc).`"""
    lost = dominated(analysis)
    if not lost:
        return ""
    by: dict[str, list[str]] = {}
    for one in lost:
        by.setdefault(one.to, []).append(one.treatment)
    groups = "; ".join(f"{listed(names, len(names))} (by {to})" for to, names in by.items())
    return f"Out, worse in one and better in none: {groups}."


def _where(analysis: Analysis, overall: Overall) -> str:
    count = len(overall.workloads)
    return f"on {overall.workloads[0]}" if count == 1 else f"on these {counted(count, analysis.workload_noun)}"

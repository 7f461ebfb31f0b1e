# SPDX-License-Identifier: Apache-2.0
"""What a search over settings says of each allocator, in sentences."""

from __future__ import annotations

import math

from ..model.analysis import Comparison, Interval
from ..model.metrics import metric_named
from ..model.tuning import Choice, Space, TuneAnswer, Tuned
from .words import bounded, change, plus_minus

_WIDE = 1.3  # ends so far apart are told both: a half-width would hide that they are uneven
Sides = tuple[Comparison | None, Comparison | None]  # time and memory


def headline(answer: TuneAnswer) -> str:
    """The whole answer in a line for lists: what helps, or that nothing does."""
    helped = [f"{tuned.space.label(tuned.best)}" for tuned in answer.tuned if tuned.best is not None]
    if helped:
        return f"better than their defaults on {answer.workload}: {'; '.join(helped)}"
    if not answer.complete:
        return f"not finished: the {answer.reached} on {answer.workload}"
    return f"no setting is shown to help {answer.workload}"


def sides(tuned: Tuned, choice: Choice) -> Sides:
    """Time and memory of a choice against the default, as confirmed."""
    if tuned.confirmed is None:
        return None, None
    label = tuned.space.label(choice)
    time, memory = (tuned.confirmed.over_all(metric) for metric in tuned.confirmed.primary)
    return (time.of(label) if time else None), (memory.of(label) if memory else None)


def sentence(answer: TuneAnswer, tuned: Tuned) -> str:
    """What is known of one allocator. Only a confirmation claims a gain."""
    name = tuned.space.allocator
    if tuned.best is not None:
        return f"{name}: {options(tuned.space, tuned.best)} on {answer.workload}: {gains(answer, sides(tuned, tuned.best))}."
    if tuned.held:
        tried = f"{tuned.screened} combinations were screened and {tuned.raced} raced"
        if nothing_matters(answer, tuned):
            return f"{name}: settings do nothing here; {tried}, and no level moves time or memory beyond the margin."
        return f"{name}: no setting looks better than the defaults here; {tried}."
    if tuned.confirmed is None:
        return f"{name}: not confirmed yet, so nothing is claimed. The {answer.reached} was begun."
    found = [c for choice in tuned.finalists for c in sides(tuned, choice) if c is not None]
    if found and all(c.verdict == "equivalent" for c in found):
        return f"{name}: settings do nothing here: the best that was found is the same as the default, within the margins."
    likeliest = _likeliest(answer, tuned)
    return (
        f"{name}: no setting is shown to help {answer.workload}. "
        f"The likeliest is {options(tuned.space, likeliest)}: {gains(answer, sides(tuned, likeliest))}."
    )


def _likeliest(answer: TuneAnswer, tuned: Tuned) -> Choice:
    """Of the finalists the one that looks best in what is preferred."""
    side = 1 if answer.tuning.preference.prefer == "memory" else 0
    sign = -1 if metric_named((answer.time, answer.memory)[side]).direction == "higher" else 1

    def cost(choice: Choice) -> float:
        found = sides(tuned, choice)[side]
        return math.inf if found is None else sign * found.interval.ratio

    return min(tuned.finalists, key=cost)


def gains(answer: TuneAnswer, both: Sides) -> str:
    """`time -3.1 % ± 0.4 %, charged memory the same`."""
    parts = []
    for metric, comparison in zip((answer.time, answer.memory), both, strict=True):
        title = metric_named(metric).title
        if comparison is None:
            parts.append(f"{title} was not measured")
        elif comparison.verdict == "equivalent":
            parts.append(f"{title} the same ({moved(comparison.simultaneous)})")
        else:
            parts.append(f"{title} {moved(comparison.simultaneous)}{' (undecided)' if comparison.verdict == 'undecided' else ''}")
    return ", ".join(parts)


def moved(interval: Interval) -> str:
    """`-3.1 % ± 0.4 %`, or both ends where the interval is uneven or unbounded."""
    if not bounded(interval):
        return f"{change(interval.ratio)}, of unknown width"
    if interval.high > _WIDE * interval.low:
        return f"{change(interval.ratio)} ({change(interval.low)} to {change(interval.high)})"
    return f"{'+' if interval.ratio >= 1 else '-'}{plus_minus(interval)}"


def options(space: Space, choice: Choice) -> str:
    """`narenas=1, dirty_decay_ms=0`; the default in a word."""
    return ", ".join(f"{name}={value}" for name, value in space.options(choice).items()) or "default"


def nothing_matters(answer: TuneAnswer, tuned: Tuned) -> bool:
    """Do all main effects lie within the margins with their whole intervals?"""
    margins = {answer.time: answer.margins[0], answer.memory: answer.margins[1]}
    return bool(tuned.effects) and all(
        1 / (1 + margins[e.metric]) <= e.interval.low and e.interval.high <= 1 + margins[e.metric] for e in tuned.effects
    )

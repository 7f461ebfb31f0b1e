# SPDX-License-Identifier: Apache-2.0
"""What the answer says of a program that was not measured: a prediction, its odds, and how to find out."""

from __future__ import annotations

from ..model.analysis import Analysis, NextProgram, Overall
from ..model.metrics import metric_named
from ..model.units import counted
from ..stats.next_program import LEAST_PROGRAMS
from .effect_words import noun_of, reach
from .words import percent

IN_TEN = 10


def another_program(analysis: Analysis, chosen: str | None) -> str:
    """The prediction for the chosen allocator in what it was chosen for; "" where one program or levels were measured."""
    overall = analysis.over_all(analysis.time)
    if analysis.workload_noun != "program" or overall is None or len(overall.workloads) < 2:
        return ""
    trial = f"try yours: heapyard compare {f'{chosen} ' if chosen else ''}-- YOUR COMMAND"
    found = prediction(analysis, chosen or fastest(overall))
    if found is None:
        return f"Another program: {counted(len(overall.workloads), 'program')} are too few to say; {trial}"
    under = "" if chosen else f" under {found.treatment}"
    noun = noun_of(metric_named(overall.metric))
    return f"Another program{under}: {reach(found.interval)} {noun}; {odds_in_words(found, analysis.margins[0])}; {trial}"


def fastest(overall: Overall) -> str:
    """The treatment with the best mean, the baseline apart; "" without any, and where the others would be too few."""
    sign = -1 if metric_named(overall.metric).direction == "higher" else 1
    return min(overall.comparisons, key=lambda c: sign * c.interval.ratio).treatment if overall.comparisons else ""


def prediction(analysis: Analysis, treatment: str, metric: str = "") -> NextProgram | None:
    """Of one further program under the treatment, in time unless another metric is named."""
    overall = analysis.over_all(metric or analysis.time)
    return next((n for n in overall.next_program if n.treatment == treatment), None) if overall else None


def in_ten(found: NextProgram) -> tuple[int, int]:
    """How many of ten programs gain and lose, in whole programs; none where the prediction does not reach so far."""
    gains, loses = (round(IN_TEN * p) for p in (found.gains, found.loses))
    return gains if found.may_gain else 0, loses if found.may_lose else 0


def odds_in_words(found: NextProgram, margin: float) -> str:
    """`of 10 such programs 6 gain more than 2 %, 1 loses more than 2 %`, in whole programs."""
    gains, loses = in_ten(found)
    edge = percent(margin).replace(".0 ", " ")
    gain = f"{gains} {'gains' if gains == 1 else 'gain'}"
    lose = f"{loses} {'loses' if loses == 1 else 'lose'}"
    return f"of {IN_TEN} such programs {gain} and {lose} more than {edge}"


def odds_beside(found: NextProgram) -> str:
    """`6 of 10 gain, 3 lose`: for a column of a page."""
    gains, loses = in_ten(found)
    return f"{gains} of {IN_TEN} gain, {loses} lose"


def odds_short(found: NextProgram) -> str:
    """`6/1`: of ten such programs so many gain and so many lose more than the margin."""
    return "/".join(map(str, in_ten(found)))


def left_out_words(analysis: Analysis) -> str:
    """How the predictions did when each program in turn was left out, all allocators together; "" where the others are too few."""
    overall = analysis.over_all(analysis.time)
    if overall is None or not overall.next_program or len(overall.workloads) <= LEAST_PROGRAMS:
        return ""
    held, total = sum(n.held for n in overall.next_program), len(overall.workloads) * len(overall.next_program)
    title = metric_named(overall.metric).title
    return f"Each program in turn left out: the intervals from the others held {held} of {total} effects on {title}."

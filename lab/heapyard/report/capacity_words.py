# SPDX-License-Identifier: Apache-2.0
"""A server's capacity under each allocator, in sentences: who serves most within the limits, and what to know of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..model.capacity import Capacities, Capacity
from ..model.limits import RATE, TRIAL, Limit
from ..model.program import Server
from ..model.record import Record
from ..model.units import counted
from .load_words import omission
from .words import change, listed, ratio, sentence

FULL = 0.9  # of a processor, or of all: whoever uses that much has no more to give
WIDE = 4.0  # from the low to the high end of an interval that says nothing yet
KEY = "+ more, - less, = same within the margin, ? undecided"


def limits_text(limits: Sequence[Limit]) -> str:
    """`p99 ≤ 5 ms and failed ≤ 1 %`: as the user wrote them."""
    return listed([_limit(limit) for limit in limits], most=len(limits))


def _limit(limit: Limit) -> str:
    name, _, value = (part.strip() for part in limit.text.partition("="))
    return f"{name} {'≥' if limit.at_least else '≤'} {re.sub(r'(?<=[0-9])(?=[a-zµ%])', ' ', value)}"


def rate_text(rate: float) -> str:
    """Three digits: `87.5`, `4,210`."""
    rounded = float(f"{rate:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def capacity_text(row: Capacity) -> str:
    """`4,210`, or what is known where no rate was broken, or none was kept."""
    if row.rate:
        return rate_text(row.rate.value)
    if row.failed:
        return "failed"
    if row.kept_up_to is not None:
        return f"≥ {rate_text(row.kept_up_to)}"
    return f"< {rate_text(row.broken_from)}" if row.broken_from is not None else "not tried"


def headline(found: Capacities) -> str:
    """One sentence or two: who has the highest capacity that is shown to be above the baseline's."""
    base = next((row for row in found.rows if row.treatment == found.baseline), None)
    if base is None or base.rate is None:
        return f"The capacity under {found.baseline} is not known yet: {_known(base)}."
    own = f"{_interval(base)} under {found.baseline}"
    if (best := best_of(found)) is not None:
        assert best.ratio is not None and best.rate is not None
        by = f"{change(best.ratio.ratio)} ({change(best.ratio.low)} to {change(best.ratio.high)})"
        return (f"{best.treatment} serves {rate_text(best.rate.value)} requests a second with {limits_text(found.limits)}: "
                f"{by} against {own}.")
    worse = [row.treatment for row in found.rows if row.verdict == "worse"]
    less = f" Less: {listed(worse)}." if worse else ""
    return f"No allocator is shown to serve more requests a second with {limits_text(found.limits)} than the {own}.{less}"


def best_of(found: Capacities) -> Capacity | None:
    """The highest capacity of those that are shown to be above the baseline's. O(rows)."""
    better = [row for row in found.rows if row.verdict == "better" and row.ratio]
    return max(better, key=lambda row: row.ratio.ratio if row.ratio else 0.0, default=None)


def _interval(row: Capacity) -> str:
    assert row.rate is not None
    return f"{rate_text(row.rate.value)} ({rate_text(row.rate.low)} to {rate_text(row.rate.high)})"


def _known(row: Capacity | None) -> str:
    if row is None or not row.trials:
        return "no trial has ended"
    parts = [f"it kept the limits at {rate_text(row.kept_up_to)}"] if row.kept_up_to is not None else []
    parts += [f"it broke them at {rate_text(row.broken_from)}"] if row.broken_from is not None else []
    return " and ".join(parts)


def control_text(found: Capacities) -> tuple[str, bool]:
    """What the A/A control says, and whether it is an alarm."""
    control = found.control
    if control is None or control.ratio is None or control.ratio.high > WIDE * control.ratio.low:
        return "A/A control: too few trials to tell anything.", False
    interval = f"{ratio(control.ratio.ratio)} [{ratio(control.ratio.low)}, {ratio(control.ratio.high)}]"
    if control.ratio.low > 1 or control.ratio.high < 1:
        why = "something else than the allocator decides here. See heapyard doctor."
        return f"A/A control: {found.baseline} DIFFERS from itself ({interval}): {why}", True
    return f"A/A control passed: {found.baseline} against itself {interval}.", False


def sentences(found: Capacities, record: Record) -> list[str]:
    """What to know of the figures: who was given up, what broke instead of the limits, the generator's share."""
    server, processors = record.experiment.programs[0].server, _processors(record)
    told = [f"{row.treatment} was given up: {row.failed.rstrip('.')}." for row in found.rows if row.failed]
    told += _short(found, processors)
    if any(TRIAL in row.broke for row in found.rows):
        told.append("Some trials broke off, because the server or the load failed. They count as beyond the capacity.")
    if found.left_out:
        told.append(f"{sentence(counted(found.left_out, 'disturbed trial'))} did not count; heapyard show --trials lists all.")
    if server:
        told += _pace(server)
    return told


def _short(found: Capacities, processors: int) -> list[str]:
    """Where the asked rate was not reached: was it the server, or the load?"""
    short = [row for row in found.rows if RATE in row.broke]
    if not short:
        return []
    near = [use for row in short if row.rate and (use := usage(row.near))]
    text = "At some rates the load sent less than 97 % of what was asked. Those trials count as beyond the capacity."
    if not near:
        return [text]
    load, server = max(near, key=lambda use: use[0])
    shares = f"Near the capacity it used {load:.2f} processors and the server {server:.2f}"
    if processors and load + server >= FULL * processors:
        return [f"{text} {shares} of {processors}: they have no more, so run the load on another machine."]
    if load >= FULL and load > server:
        return [f"{text} {shares}: the load generator may be what is at its limit, not the server. Give it more threads."]
    return [f"{text} {shares}."]


def usage(near: Mapping[str, float]) -> tuple[float, float] | None:
    """Processors that the load and the server used while the load ran."""
    wall = near.get("wall", 0.0)
    return (near.get("generator_cpu", 0.0) / wall, near.get("load_cpu", 0.0) / wall) if wall > 0 else None


def _pace(server: Server) -> list[str]:
    if not server.generator:
        return ["Whether the load keeps its rate while the server stalls is not known: heapyard does not know this generator."]
    if server.paced:
        return []
    better = "vegeta, wrk2, pgbench --rate and sysbench --rate do not wait; their figures are the ones to prefer."
    return [f"{omission(server.generator)} {better}"]


def _processors(record: Record) -> int:
    return record.observations.processors

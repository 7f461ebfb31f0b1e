# SPDX-License-Identifier: Apache-2.0
"""What hours under load showed, in sentences: the terminal and the page say the same."""

from __future__ import annotations

from ..catalog.load_generators import generator_of, keeps_pace
from ..model.hours import IN_TURNS, HoursAnswer, ServerAnswer, Slope
from ..model.units import counted, format_bytes, format_duration
from .load_words import omission

HOUR = 3600.0
_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))


def per_hour(slope: Slope | None) -> str:
    """`+3.1 ± 0.4 MiB/h`; "" of none."""
    if slope is None:
        return ""
    value, half = slope.value * HOUR, slope.half * HOUR
    unit, size = next(((u, s) for u, s in _UNITS if max(abs(value), half) >= s), _UNITS[-1])
    digits = 0 if half / size >= 10 or size == 1 else 1 if half / size >= 1 else 2
    sign = "+" if round(value / size, digits) else ""
    return f"{value / size if sign else 0.0:{sign}.{digits}f} ± {half / size:.{digits}f} {unit}/h"


def percent_per_hour(slope: Slope | None) -> str:
    """`+1.2 ± 0.3 %/h` of the level; "" of none, and where it is not known to a quarter, or to 100 %/h."""
    if slope is None or slope.level <= 0 or slope.half * slope.seconds > slope.level / 4:
        return ""
    value, half = (100 * HOUR * v / slope.level for v in (slope.value, slope.half))
    if half > 100:
        return ""
    digits = 0 if half >= 10 else 1
    return f"{value:+.{digits}f} ± {half:.{digits}f} %/h"


def headline(answer: HoursAnswer) -> str:
    """`Resident memory: +3.1 ± 0.4 MiB/h under glibc; steady under jemalloc.`"""
    told = [f"{_moves(server)} under {server.name}" for server in answer.servers if server.rss]
    if not told:
        return "Resident memory: too little was measured for a slope."
    return f"Resident memory: {'; '.join(told)}."


def _moves(server: ServerAnswer) -> str:
    slope = server.rss
    assert slope is not None
    text = per_hour(slope)
    if slope.motion in ("grows", "shrinks"):
        return text
    return f"no growth ({text})" if slope.motion == "steady" else f"growth cannot be told ({text})"


def sentences(answer: HoursAnswer) -> list[str]:
    """What the numbers alone do not say, in the order of importance."""
    told = []
    for server in answer.servers:
        told += _of(server)
    if not any(server.live for server in answer.servers) and any(s.rss and s.rss.motion == "grows" for s in answer.servers):
        told.append("Whether live blocks grow or malloc holds more beside them: --profile tells.")
    told += _pace(answer)
    if answer.mode == IN_TURNS:
        told.append(f"In turns: {answer.why}. Hours are those of a server's own running time. A server that goes on after a "
                    "stop finds its clock advanced: timers are late, and time limits may have passed.")
    elif answer.mode:
        told.append(f"Side by side: {answer.why}.")
    if not answer.complete:
        told.append("It is not complete; the same command goes on.")
    return told


def _of(server: ServerAnswer) -> list[str]:
    name, told = server.name, []
    if server.noted.failed:
        told.append(f"{name} was given up: {server.noted.failed}.")
    if server.noted.samples and not server.noted.failed and not any(one.metrics for one in server.noted.passes):
        told.append(f"{name}: no pass of the load ended in one piece, so its rate and latency are not known.")
    if server.live and server.held:
        told.append(f"{name}: {_leak_or_fragments(server)}")
    moves = server.rss is not None and server.rss.motion != "steady"
    if moves and server.bends and server.halves[0] and server.halves[1]:
        told.append(f"{name}: not a straight line: {per_hour(server.halves[0])} in the first half after the warm-up, "
                    f"{per_hour(server.halves[1])} in the second.")
    if moves and server.rss and server.rss.wanders:
        told.append(f"{name}: memory wanders over the whole run, so the interval may be too narrow; only a longer run helps.")
    if server.spikes:
        most = max(server.spikes, key=lambda spike: spike.height)
        stays = sum(max(spike.stays, 0.0) for spike in server.spikes)
        told.append(f"{name}: {counted(len(server.spikes), 'spike')} of memory, the largest {format_bytes(most.height)} for "
                    f"{format_duration(most.lasted)} after {format_duration(most.at)}; "
                    + (f"{format_bytes(stays)} of them stay." if stays > 0.1 * most.height else "nothing of them stays."))
    told += [f"{name}: after {format_duration(at)}: {text}." for at, text in server.noted.notes[:5]]
    if (more := len(server.noted.notes) - 5) > 0:
        told.append(f"{name}: {counted(more, 'remark')} more; --json has them.")
    fresh = [s for s in server.noted.stretches[1:] if s.fresh]
    found = [s for s in server.noted.stretches[1:] if not s.fresh]
    if fresh:
        told.append(f"{name}: the server was started {counted(len(fresh) + 1, 'time')}; each launch has a level of its own.")
    if found:
        told.append(f"{name}: the server went without its load {counted(len(found), 'time')} until the next command found it; "
                    "what happened then is left out.")
    return told


def _pace(answer: HoursAnswer) -> list[str]:
    """What latencies leave out where the loads wait for answers."""
    if not answer.latency_name.startswith("latency"):
        return []
    waiting = (known for line in answer.loads if (known := generator_of(line)) and not keeps_pace(known, line))
    return [omission(known.name) for known in waiting][:1]  # loads are of one generator


def _leak_or_fragments(server: ServerAnswer) -> str:
    assert server.live and server.held
    live, held = server.live, server.held
    both = f"live blocks {per_hour(live)}, what malloc and the program hold beside them {per_hour(held)}"
    if live.motion == "grows" and held.motion != "grows":
        if held.half > live.value / 2:
            return f"live blocks grow; whether fragmentation does too cannot be told: {both}."
        return f"a leak, or data that the server keeps: {both}."
    if live.motion == "grows":
        return f"live blocks and what is held beside them both grow: {both}."
    if held.motion == "grows":
        return f"fragmentation, not a leak: {both}."
    return f"{both}."


def milliseconds(value: float) -> str:
    return f"{1e3 * value:.3g}"


def hour_name(begin: float, end: float, period: float) -> str:
    """`3` of the third hour; `6 to 12 min` of a shorter period."""
    if period >= HOUR:
        return f"{begin / HOUR:.0f} to {end / HOUR:.3g} h"
    if period >= 60:
        return f"{begin / 60:.3g} to {end / 60:.3g} min"
    return f"{begin:.3g} to {end:.3g} s"


def latency_title(name: str) -> str:
    """`p99` of latency_p99; the name itself of a metric of the user's."""
    if name == "pass_time":
        return "load"
    return name.removeprefix("latency_")


def is_time(name: str) -> bool:
    return name.startswith("latency_") or name in ("pass_time", "time_per_request")


def reach_of(server: ServerAnswer) -> str:
    """`10.3 → 26.6 MiB`: the first and the last row."""
    told = [hour.rss for hour in server.hours if hour.rss is not None]
    if not told:
        return "–"
    first, last = format_bytes(told[0]), format_bytes(told[-1])
    same = first.split()[1] == last.split()[1]
    return f"{first.split()[0] if same else first} → {last}"

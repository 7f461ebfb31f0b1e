# SPDX-License-Identifier: Apache-2.0
"""May the servers of a run share this machine at the same time? What each took while it ran alone tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...model.hours import IN_TURNS, SIDE_BY_SIDE
from ...model.units import format_bytes

MOST_BUSY = 0.7  # of the processors; beyond, servers and loads would wait for each other
GROWTH = 4.0  # times the memory they have at first must be there, as a leak is looked for
LEAST = 0.5  # times that, or not even stopped servers have room


@dataclass(frozen=True, slots=True)
class Taken:
    """Processors that a server and its load kept busy, and its resident bytes."""

    processors: float
    rss: int


def decide(taken: Sequence[Taken], processors: int, free: int) -> tuple[str, str]:
    """(mode, the reason as a sentence). `free`: bytes beside those that the servers have already."""
    busy, rss = sum(one.processors for one in taken), sum(one.rss for one in taken)
    measured = f"alone, servers and loads kept {busy:.1f} processors busy and held {format_bytes(rss)} in all"
    there = f"there are {processors} processors and {format_bytes(free)} free"
    if busy > MOST_BUSY * processors:
        return IN_TURNS, f"{measured}; {there}, and at most {MOST_BUSY:.0%} of the processors may be busy"
    if GROWTH * rss > free:
        return IN_TURNS, f"{measured}; {there}, and {GROWTH:g} times their memory must be free"
    return SIDE_BY_SIDE, f"{measured}; {there}"


def has_room(taken: Sequence[Taken], free: int) -> str:
    """"" or why not even stopped servers have room beside each other."""
    rss = sum(one.rss for one in taken)
    if LEAST * rss > free:
        return f"the servers hold {format_bytes(rss)}, and {format_bytes(free)} is free: there is no room to see them grow"
    return ""

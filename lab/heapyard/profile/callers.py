# SPDX-License-Identifier: Apache-2.0
"""The callers of call chains, a line each, in which chains that begin alike part."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile


def caller_lines(chains: Sequence[Sequence[str]], room: int, places: Sequence[Sequence[str]] | None = None) -> list[str]:
    """`< caller < its caller < …` of each, at most `room` characters wide.

    `chains`: names, innermost first; the first is shown elsewhere. Where lines would be the same, each begins with the caller
    that tells its chain from the others, behind `< … `. Chains of the same names are told apart by `places`, of each name where
    in the source it is, if those are given; else their lines stay equal. O(names) per line that is drawn.
    """
    lines = [_line(names[1:], room) for names in chains]
    unparted = [(group, 0) for group in _alike(range(len(chains)), chains, lines)]
    while unparted:
        group, before = unparted.pop()
        parting = _common([chains[index] for index in group])
        if all(len(chains[index]) == parting for index in group):
            for index, line in zip(group, _by_place(group, chains, room, places), strict=False):
                lines[index] = line
            continue
        if parting == before:  # they differ in what is cut off
            continue
        # One may end where the others go on, and they may go on with the name it ended with.
        last = {_from(chains[index], parting - 1, room) for index in group if len(chains[index]) == parting}
        for index in group:
            line = _from(chains[index], min(parting, len(chains[index]) - 1), room)
            if len(chains[index]) > parting and line in last:
                line = _from(chains[index], parting - 1, room)
            lines[index] = line
        unparted += [(alike, parting) for alike in _alike(group, chains, lines)]
    return lines


def _by_place(
    group: Sequence[int], chains: Sequence[Sequence[str]], room: int, places: Sequence[Sequence[str]] | None
) -> list[str]:
    """New lines of chains that have the same names; none where they are in the same places too."""
    if places is None or all(places[index] == places[group[0]] for index in group):
        return []
    placed = [[chains[index][0]] for index in group]
    for names, index in zip(placed, group, strict=True):
        names += [f"{name} {place}" for name, place in zip(chains[index][1:], places[index][1:], strict=True)]
    return caller_lines(placed, room)


def _alike(indexes: Sequence[int], chains: Sequence[Sequence[str]], lines: Sequence[str]) -> list[list[int]]:
    """Those whose first names and lines are the same, in groups of two and more."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index in indexes:
        groups.setdefault((chains[index][0], lines[index]), []).append(index)
    return [group for group in groups.values() if len(group) > 1]


def _common(chains: Sequence[Sequence[str]]) -> int:
    """How many names all begin with."""
    return sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, zip(*chains, strict=False)))


def _from(names: Sequence[str], start: int, room: int) -> str:
    return _line(names[1:], room) if start < 2 else "< … " + _line(names[start:], room - 4)


def _line(names: Sequence[str], room: int) -> str:
    """As many names as fit, and of the first one, if it alone does not, its end."""
    shown = ""
    for place, name in enumerate(names):
        left = room - len(shown) - len("<  ") - (0 if place == len(names) - 1 else len("< …"))
        if len(name) > left:
            if shown or left < 2:
                return shown + "< …"
            return f"< …{name[1 - left :]}" + ("" if place == len(names) - 1 else " < …")
        shown += f"< {name} "
    return shown.rstrip()

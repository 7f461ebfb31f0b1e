# SPDX-License-Identifier: Apache-2.0
"""What the names on a command line mean: programs, allocators, and lists of either."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..model.allocator import SYSTEM
from ..model.errors import UsageError
from .suggest import near


def split_list(texts: Iterable[str]) -> tuple[str, ...]:
    """`a,b:x=1,y=2` given once or several times, as (a, b:x=1,y=2): an option's comma does not part names.

    O(length).
    """
    names: list[str] = []
    for text in texts:
        fresh = True  # an option's comma never reaches into the next argument
        for piece in (p.strip() for p in text.split(",")):
            if not fresh and "=" in piece and ":" not in piece and names and ":" in names[-1]:
                names[-1] += f",{piece}"
            elif piece:
                names.append(piece)
            fresh = False
    return tuple(dict.fromkeys(names))


def sort_names(
    names: Iterable[str], programs: Collection[str], allocators: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(programs, allocators) among the names, by what stands before a colon.

    UsageError for a name that is neither or both.
    """
    found: tuple[list[str], list[str]] = ([], [])
    for name in names:
        base = name.partition(":")[0]
        is_program, is_allocator = base in programs, base in allocators or base == SYSTEM
        if is_program and is_allocator:
            raise UsageError(
                f"'{base}' is both a program and an allocator", remedy="Name it with --programs or --allocators."
            )
        if not is_program and not is_allocator:
            raise _neither(name, [*programs, *allocators])
        found[is_allocator].append(name)
    return tuple(found[0]), tuple(found[1])


def _neither(name: str, known: Iterable[str]) -> UsageError:
    if "/" in name or " " in name:
        return UsageError(
            f"there is no program or allocator '{name}'",
            remedy="Your own command goes after --, as in: heapyard compare -- ./prog",
        )
    close = near(name.partition(":")[0], known)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return UsageError(
        f"there is no program or allocator '{name}'{hint}",
        remedy="heapyard programs and heapyard allocators list them; your own command goes after --.",
    )

# SPDX-License-Identifier: Apache-2.0
"""Cache lines that move between cores, in words: whose data they hold, and which functions ask for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..model.simulation import Access, Line, NamedLine, Place
from .chains import short
from .symbols import Frame, frames_at

_LAYERS = "heap/layers/"
_KINDS = {"heap": "a block of the heap", "stack": "a thread's stack", "mapping": "mapped memory", "symbol": "data"}

Names = Mapping[tuple[str, int], list[Frame]]


def named(lines: Sequence[Line]) -> tuple[NamedLine, ...]:
    """The lines with names for their data and code, in their order. One look into each module: some milliseconds."""
    names = _names_of(lines)
    return tuple(NamedLine(line, _owner(line, names), _layer(line, names), _accesses(line, names)) for line in lines)


def _names_of(lines: Sequence[Line]) -> Names:
    asked: dict[str, set[int]] = defaultdict(set)
    for line in lines:
        for place in (line.owner, *line.code):
            if place.module.startswith("/") and Path(place.module).is_file():
                asked[place.module].add(place.offset)
    return {(module, at): frames for module, offsets in asked.items()
            for at, frames in frames_at(Path(module), sorted(offsets)).items()}


def _owner(line: Line, names: Names) -> str:
    """`main_arena in libc.so.6`, `a block of the heap`, `data of libjemalloc.so.2`."""
    owner, module = line.owner, Path(line.owner.module).name
    found = names.get((owner.module, owner.offset)) if line.kind == "symbol" else None
    name = owner.name or (found[0].function if found else "")
    if line.kind == "symbol" and name:
        return f"{short(name)} in {module}" if module else short(name)
    return f"{_KINDS[line.kind]} of {module}" if module and line.kind in ("symbol", "mapping") else _KINDS[line.kind]


def _accesses(line: Line, names: Names) -> tuple[Access, ...]:
    """By function, inlined ones too, and source line; the most frequent first."""
    counts: Counter[tuple[str, str]] = Counter()
    for place in line.code:
        counts[_called(place, names)] += place.count
    return tuple(Access(function, where, count) for (function, where), count in counts.most_common())


def _called(place: Place, names: Names) -> tuple[str, str]:
    module = Path(place.module).name
    frames = names.get((place.module, place.offset))
    if not frames:
        return (f"{module}+{place.offset:#x}" if module else "code of no file"), module
    return short(frames[0].function), frames[0].place


def _layer(line: Line, names: Names) -> str:
    """`spans/span_pool.hpp`: the file of a layer in which most accesses begin."""
    counts: Counter[str] = Counter()
    for place in line.code:
        for frame in names.get((place.module, place.offset), ())[:1]:
            if _LAYERS in frame.file:
                counts[frame.file.rpartition(_LAYERS)[2]] += place.count
    return counts.most_common(1)[0][0] if counts else ""

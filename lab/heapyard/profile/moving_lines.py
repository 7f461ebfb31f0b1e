# SPDX-License-Identifier: Apache-2.0
"""Cache lines that move between cores, in words: whose data they hold, and which functions ask for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..model.simulation import Access, Line, NamedLine, Place
from ..report.words import listed
from .chains import short
from .symbols import Frame, frames_at

_LAYERS = "heap/layers/"
_KINDS = {"heap": "a block of the heap", "stack": "a thread's stack", "mapping": "memory from mmap", "symbol": "data"}

Names = Mapping[tuple[str, int], list[Frame]]


def named(lines: Sequence[Line]) -> tuple[NamedLine, ...]:
    """The lines with names for their data and code, in their order. One look into each module: some milliseconds."""
    names = _names_of(lines)
    return tuple(NamedLine(line, _owner(line, names), _layer(line, names), _accesses(line, names)) for line in lines)


def _names_of(lines: Sequence[Line]) -> Names:
    asked: dict[str, set[int]] = defaultdict(set)
    for line in lines:
        for place in (*_written(line), *line.code):
            if place.module.startswith("/") and Path(place.module).is_file():
                asked[place.module].add(place.offset)
    return {(module, at): frames for module, offsets in asked.items()
            for at, frames in frames_at(Path(module), sorted(offsets)).items()}


def _written(line: Line) -> list[Place]:
    """Where in its module the line is written: a line may hold several variables, and begin with none of them."""
    lows = sorted({writer.low for writer in line.writers}) or [0]
    return [replace(line.owner, offset=line.owner.offset + low) for low in lows] if line.kind == "symbol" else []


def _owner(line: Line, names: Names) -> str:
    """`main_arena in libc.so.6`, `a block of the heap`, `data of libjemalloc.so.2`."""
    module = Path(line.owner.module).name
    found = (names.get((place.module, place.offset)) for place in _written(line))
    variables = list(dict.fromkeys(short(frames[0].function).removeprefix("heapyard::") for frames in found if frames))
    if variables:
        return f"{listed(variables)} in {module}"
    return f"{_KINDS[line.kind]} of {module}" if module else _KINDS[line.kind]


def _accesses(line: Line, names: Names) -> tuple[Access, ...]:
    """By function and source line, the most frequent first."""
    counts: Counter[tuple[str, str]] = Counter()
    for place in line.code:
        counts[_called(place, names)] += place.count
    return tuple(Access(function, where, count) for (function, where), count in counts.most_common())


def _called(place: Place, names: Names) -> tuple[str, str]:
    """The function that says most: one of a layer if there is one, else the innermost that is not the C++ library's own."""
    module = Path(place.module).name
    frames = names.get((place.module, place.offset))
    if not frames:
        return (f"{module}+{place.offset:#x}" if module else "code of no file"), module
    ours = (frame for frame in frames if _LAYERS in frame.file)
    plain = (frame for frame in frames if not frame.function.startswith("std::"))
    chosen = next(ours, None) or next(plain, None) or frames[0]
    return short(chosen.function), chosen.place


def _layer(line: Line, names: Names) -> str:
    """`spans/span_pool.hpp`: the layer in which most of the accesses begin."""
    counts: Counter[str] = Counter()
    for place in line.code:
        files = (frame.file for frame in names.get((place.module, place.offset), ()))
        if first := next((file for file in files if _LAYERS in file), ""):
            counts[first.rpartition(_LAYERS)[2]] += place.count
    return counts.most_common(1)[0][0] if counts else ""

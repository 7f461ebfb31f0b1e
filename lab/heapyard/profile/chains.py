# SPDX-License-Identifier: Apache-2.0
"""Call chains as people read them: functions instead of addresses, wrappers of malloc left out, errors beside estimates."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .symbols import Frame

if TYPE_CHECKING:
    import numpy as np

    from .trace import Snapshot, Trace

TRACER = ("libheapyard_tracer.so", "libheapyard_tracer_heap.so")

# What stands between a program's own code and malloc, and says nothing of who wanted the memory.
WRAPPERS = re.compile(
    r"^(operator new|std::__new_allocator|__gnu_cxx::new_allocator|std::allocator|std::allocator_traits|std::__allocator"
    r"|std::__detail::_Hashtable_alloc|std::__allocate_guarded|std::_Vector_base<.*>::_M_allocate|__gnu_cxx::__alloc_traits"
    r"|alloc::alloc::|alloc::raw_vec::|<alloc::alloc::Global|__rust_alloc|__rdl_alloc|__rust_realloc|__rdl_realloc"
    r"|PyMem_|PyObject_Malloc|PyObject_Realloc|PyObject_Calloc|_PyMem_|_PyObject_Malloc"
    r"|g_malloc|g_realloc|xmalloc|xrealloc|xcalloc)"
)

_NO_BRACKETS = re.compile(r"operator(<=>|[<>]{1,2}=?|\(\))|->")  # that open and close nothing
_HIDDEN, _SHOWN = str.maketrans("<>()", "\0\1\2\3"), str.maketrans("\0\1\2\3", "<>()")

_ENCLOSED = re.compile(r"([\w.<>]+\.)?<\w+>")  # Python's <module>, <lambda>, f.<locals>.<genexpr>

_NORMAL = 1.959964  # 97.5 % of the normal distribution lie below


@dataclass(frozen=True, slots=True)
class ChainMemory:
    """What one chain owns at an instant. `deviation`: the standard error of its bytes; 0 when every event was recorded.

    `mapped_as`: of mappings, bytes as in account.MAPPED_AS.
    """

    node: int
    bytes: int
    blocks: int
    deviation: float
    mapped_as: tuple[int, ...] = ()

    @property
    def error(self) -> float:
        """Half of a 95 % interval, bytes."""
        return half_width(self.bytes, self.deviation)


class Naming:
    """Frames of a trace's nodes. `native`: a script's chains keep the functions of its interpreter."""

    def __init__(self, trace: Trace, frames: Mapping[tuple[int, int], list[Frame]], native: bool = False):
        self.native = native
        self._parents = trace.parent.tolist()
        self._places = list(zip(trace.module.tolist(), trace.offset.tolist(), strict=True))
        self._frames = frames
        self._allocator = trace.meta.get("allocator") or "\0"
        # A heap of ours that tells of itself is the innermost part of each chain, and says nothing of who asked.
        self._told_by_heap = any(self._of_heap(f) and f.function.startswith("heapyard::") for at in frames.values() for f in at)

    def frames(self, node: int) -> list[Frame]:
        """The node's own frames: innermost inlined function first."""
        return self._frames[self._places[node]]

    def chain(self, node: int) -> list[Frame]:
        """From the function that called malloc outwards; never empty. O(depth)."""
        whole: list[Frame] = []
        while node != 0:
            whole += self.frames(node)
            node = self._parents[node]
        return list(itertools.dropwhile(self.says_nothing, whole)) or whole

    def says_nothing(self, frame: Frame) -> bool:
        """Whether the frame is of the heap that told of itself."""
        return self._told_by_heap and self._of_heap(frame)

    def _of_heap(self, frame: Frame) -> bool:
        return frame.module.endswith(self._allocator)

    def telling(self, node: int) -> list[Frame]:
        """The same as people read it; never empty: a script's own functions if any are named, else all but malloc's wrappers
        at its inner end.
        """
        frames = self.chain(node)
        if not self.native and (scripts := [frame for frame in frames if frame.is_script]):
            return scripts
        own = (self._allocator, *TRACER)
        first = next(
            (i for i, frame in enumerate(frames) if not WRAPPERS.match(frame.function) and not frame.module.endswith(own)), 0
        )
        return frames[first:]


def short(function: str, width: int = 0) -> str:
    """A function's name without template arguments, parameters and what a template returns, at most `width` characters if one
    is given.
    """
    if _ENCLOSED.fullmatch(function):
        return function
    kept, depth = [], 0
    name = _without_trait(function).replace("(anonymous namespace)::", "")
    name = _NO_BRACKETS.sub(lambda found: found[0].translate(_HIDDEN), name)
    for char in name:
        if char in "<(":
            depth += 1
        if depth == 0:
            kept.append(char)
        if char in ">)":
            depth -= 1
    text = "".join(kept).translate(_SHOWN).strip()
    text = re.sub(r"::h[0-9a-f]{16}$|( const| \[clone [^]]*\])+$", "", text) or function
    if "(" in name and "operator " not in text:
        text = text.rpartition(" ")[2]
    if width and len(text) > width:
        text = "…" + text[-(width - 1) :]
    return text


def _without_trait(function: str) -> str:
    """Rust's `<Vec<T> as FromIterator>::from_iter` is `Vec<T>::from_iter`."""
    if not function.startswith("<"):
        return function
    depth = trait = 0
    for at, char in enumerate(function):
        depth += {"<": 1, ">": -1}.get(char, 0)
        if depth == 1 and not trait and function.startswith(" as ", at):
            trait = at
        if depth == 0:
            return function[1 : trait or at] + function[at + 1 :]
    return function


def half_width(size: float, deviation: float) -> float:
    """Half of a 95 % interval of an estimate and its standard error.

    Of few samples the normal interval covers too seldom; adding two samples' worth of variance mends it, as it does for
    Poisson counts (Agresti and Coull 1998): with n samples the variance grows by 1 + 2/n, where n is size^2 / variance.
    """
    if size <= 0 or deviation <= 0:
        return 0.0
    return _NORMAL * deviation * (1 + 2 * (deviation / size) ** 2) ** 0.5


def deviations_of(interval: float, snapshot: Snapshot) -> np.ndarray:
    """Standard errors of a snapshot's bytes. O(chains).

    Those that the collector keeps, else by the mean size of a chain's blocks: a block of z bytes is sampled with
    probability p = 1 - exp(-(z+1)/R) and counts z/p, so that n blocks, seen or not, have a variance of n z^2 (1-p)/p
    (Horvitz and Thompson 1952).
    """
    import numpy as np

    if interval == 0:
        return np.zeros(len(snapshot.bytes))
    if snapshot.deviation is not None:
        return snapshot.deviation.astype(float)
    count = np.maximum(snapshot.blocks.astype(float), 1e-9)
    mean = snapshot.bytes / count
    p = -np.expm1(-(mean + 1) / interval)
    return np.sqrt(count * mean**2 * (1 - p) / p)


def owners(trace: Trace, snapshot: Snapshot) -> list[ChainMemory]:
    """Every chain of an instant, the largest first."""
    import numpy as np

    interval = trace.interval
    deviations = deviations_of(interval, snapshot)
    order = np.argsort(-snapshot.bytes, kind="stable")
    how = snapshot.mapped_as.tolist() if snapshot.mapped_as is not None else [()] * len(order)
    return [
        ChainMemory(int(snapshot.nodes[i]), int(snapshot.bytes[i]), int(snapshot.blocks[i]), float(deviations[i]), tuple(how[i]))
        for i in order
    ]


def as_read(naming: Naming, found: Sequence[ChainMemory]) -> list[ChainMemory]:
    """The same, the largest first, where those that are read alike are one: a script's function asks for memory through many
    of its interpreter's. O(chains x depth).
    """
    alike: dict[object, ChainMemory] = {}
    for chain in found:
        frames = naming.telling(chain.node)
        key = tuple(frames) if frames[0].is_script else chain.node
        first = alike.get(key)
        alike[key] = chain if first is None else ChainMemory(
            first.node, first.bytes + chain.bytes, first.blocks + chain.blocks, math.hypot(first.deviation, chain.deviation),
            tuple(map(sum, zip(first.mapped_as, chain.mapped_as, strict=True))))
    return sorted(alike.values(), key=lambda chain: -chain.bytes)


def total_error(found: Sequence[ChainMemory]) -> float:
    """Half of the 95 % interval of a sum over chains: chains are sampled independently."""
    return half_width(sum(c.bytes for c in found), sum(c.deviation**2 for c in found) ** 0.5)


def differences(before: Trace, after: Trace, then: Snapshot, now: Snapshot, naming: tuple[Naming, Naming]) -> list[
    tuple[tuple[str, ...], int, int, float]
]:
    """(functions outermost first, bytes then, bytes now, error of the difference) per chain, the largest change first.

    Without malloc's wrappers. Chains of two runs are the same when their functions are: addresses of two processes say
    nothing of each other.
    """
    sums: dict[tuple[str, ...], list[float]] = {}
    for place, (trace, snapshot, names) in enumerate(((before, then, naming[0]), (after, now, naming[1]))):
        for chain in owners(trace, snapshot):
            key = tuple(frame.function for frame in names.telling(chain.node))[::-1]
            entry = sums.setdefault(key, [0.0, 0.0, 0.0])
            entry[place] += chain.bytes
            entry[2] += chain.deviation**2
    rows = [(key, int(a), int(b), _NORMAL * e**0.5) for key, (a, b, e) in sums.items()]
    return sorted(rows, key=lambda row: -abs(row[2] - row[1]))

# SPDX-License-Identifier: Apache-2.0
"""The heaps of this repository: malloc libraries that the native build makes, listed in the file it leaves beside them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from ..model import places
from ..model.allocator import Allocator
from ..model.damage import DAMAGE
from .allocator_variants import OptionForm
from .elf import exported

FOR_USE = "heapyard"  # the others realise the literature: nobody asks whether a service should run on one


def own_heaps() -> list[Allocator]:
    """Every composition of heap/allocators, in the order of heap/CMakeLists.txt; none before the native build. O(heaps)."""
    try:
        return [_heap(**entry) for entry in json.loads(places.own_heaps().read_text())]
    except (OSError, *DAMAGE):
        return []


def own_options(heap: Allocator) -> OptionForm | None:
    """How options reach the heap: heap/abi/options.hpp reads them. None for the heaps that have none."""
    known = ("huge_pages", "keep", "limit", "statistics", "thread_cache")
    return OptionForm(variable="HEAPYARD_CONF", assign="=", known=known) if heap.name == FOR_USE else None


def sampled_variant(library: Path | None) -> Path | None:
    """The same heap that counts its blocks, which the tracer samples from within; None where there is none. O(1)."""
    if library is None or library.parent != places.native(library.name).resolve().parent:
        return None
    found = library.with_name(f"{library.stem.removesuffix('-sampled')}-sampled.so")
    return found if found.exists() else None


def samples_itself(library: Path | None) -> bool:
    """Whether this heap can be sampled from within. O(1)."""
    return library is not None and bool(exported(library, ["heapyard_observe_samples"]))


def _heap(name: str, title: str, version: str, gives_up: list[str] | None = None) -> Allocator:
    library = places.native(f"lib{name}.so")
    heap = Allocator(name, title, version, library.resolve(), provenance="built from heap/", usual=name == FOR_USE,
                     gives_up=tuple(gives_up or ()))
    return heap if library.exists() else replace(heap, library=None, status="unavailable", reason="not built")

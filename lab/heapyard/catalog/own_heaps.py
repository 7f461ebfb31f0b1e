"""The heaps of this repository: malloc libraries that the native build makes, listed in the file it leaves beside them."""

from __future__ import annotations

import json
from dataclasses import replace

from ..model import places
from ..model.allocator import Allocator


def own_heaps() -> list[Allocator]:
    """Every composition of heap/allocators, in the order of heap/CMakeLists.txt; none before the native build. O(heaps)."""
    try:
        listed = json.loads(places.own_heaps().read_text())
    except (OSError, ValueError):
        return []
    return [_heap(**entry) for entry in listed]


def _heap(name: str, title: str, version: str, gives_up: list[str] | None = None) -> Allocator:
    library = places.native(f"lib{name}.so")
    # Those of the literature are raced when they are named: nobody asks whether a service should run on one.
    heap = Allocator(name, title, version, library.resolve(), provenance="built from heap/", usual=False,
                     gives_up=tuple(gives_up or ()))
    return heap if library.exists() else replace(heap, library=None, status="unavailable", reason="not built")

# SPDX-License-Identifier: Apache-2.0
"""The include law of the native rooms: include <- os <- core <- tracing <- policy <- layers <- allocators <- abi.

Within the layers: backend <- spans <- frontend. base stands below the other rooms and on nothing; the heap does without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STOREYS = (
    "heap/include",
    "heap/os",
    "heap/core",
    "heap/tracing",
    "heap/policy",
    "heap/layers/backend",
    "heap/layers/spans",
    "heap/layers/frontend",
    "heap/layers",
    "heap/allocators",
    "heap/abi",
)
SHARED = (
    "heap/layers/concepts.hpp", "heap/layers/span_concepts.hpp", "heap/layers/page_concepts.hpp", "heap/layers/heap_usage.hpp",
)  # the contracts: below every layer
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
MOST_LINES = 320  # of a header of the heap: one idea, one sitting


def storey(path: str) -> int:
    """Place in the order; the longest folder that fits decides."""
    if path in SHARED:
        return STOREYS.index("heap/layers/backend")
    folder = max((place for place in STOREYS if path.startswith(place + "/")), key=len)
    return STOREYS.index(folder)


def breaches(path: str, source: str) -> Iterator[str]:
    for included in INCLUDE.findall(source):
        if not included.startswith("heap/"):
            beside = (ROOT / path).parent == ROOT / "heap/include" and (ROOT / "heap/include" / included).exists()
            if not beside and (included != "composition.hpp" or not path.startswith("heap/abi/")):
                yield f"{path} includes {included}, which is not of the heap"
        elif storey(included) > storey(path):
            yield f"{path} includes {included}, which stands above it"


def sources(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in {".h", ".hpp", ".cpp"})


def test_every_include_of_the_heap_points_downwards() -> None:
    files = sources("heap")
    assert len(files) > 15
    found = [breach for path in files for breach in breaches(str(path.relative_to(ROOT)), path.read_text())]
    assert not found


# room -> rooms that it may include; a name without a folder, or one that begins with dots, is its own.
MAY = {
    "base": ("base",),
    "mutators": ("base", "mutators"),
    "tracer": ("base", "tracer", "heap/os", "heap/core", "heap/tracing", "heap/include"),
    "lab/native": ("base",),
}


def strangers(room: str, source: str) -> list[str]:
    """What a source of the room includes and may not."""
    return [name for name in INCLUDE.findall(source)
            if "/" in name and not name.startswith("../") and not name.startswith(tuple(f"{own}/" for own in MAY[room]))]


@pytest.mark.parametrize("room", MAY)
def test_rooms_include_only_what_stands_below_them(room: str) -> None:
    files = sources(room)
    assert files
    found = {str(path): names for path in files if (names := strangers(room, path.read_text()))}
    assert not found


def test_the_law_sees_strangers() -> None:
    assert strangers("mutators", '#include "heap/os/pages.hpp"\n#include "../kit/arena.hpp"\n') == ["heap/os/pages.hpp"]
    assert strangers("base", '#include "mutators/kit/arena.hpp"\n') == ["mutators/kit/arena.hpp"]


def test_headers_of_the_heap_stay_small() -> None:
    sizes = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources("heap")}
    assert not {name: lines for name, lines in sizes.items() if lines > MOST_LINES}


@pytest.mark.parametrize(
    ("path", "included", "breach"),
    [
        ("heap/core/ring.hpp", "heap/os/pages.hpp", False),
        ("heap/include/heapyard.h", "heap/os/pages.hpp", True),
        ("heap/include/heapyard.hpp", "heapyard.h", False),
        ("heap/os/pages.hpp", "heapyard.h", True),
        ("heap/os/pages.hpp", "heap/core/ring.hpp", True),
        ("heap/core/ring.hpp", "heap/policy/slab_classes.hpp", True),
        ("heap/os/pages.hpp", "heap/tracing/page_events.hpp", True),
        ("heap/layers/spans/bucket_heap.hpp", "heap/layers/concepts.hpp", False),
        ("heap/layers/backend/best_fit_tree.hpp", "heap/layers/spans/page_record.hpp", True),
        ("heap/layers/spans/bucket_heap.hpp", "heap/layers/frontend/entry.hpp", True),
        ("heap/allocators/bfm.hpp", "heap/abi/heap_concept.hpp", True),
        ("heap/core/ring.hpp", "mutators/kit/arena.hpp", True),
    ],
)
def test_the_law_tells_up_from_down(path: str, included: str, breach: bool) -> None:
    assert bool(list(breaches(path, f'#include "{included}"\n'))) is breach

# SPDX-License-Identifier: Apache-2.0
"""The closing remarks on allocators that could be compared too."""

from __future__ import annotations

from collections.abc import Collection

from .consoles import remark


def mention_more_allocators(raced: Collection[str]) -> None:
    """At most two lines, of those that are here and were not raced, and of those that can be installed."""
    from ..catalog.allocators import load_allocators
    from ..catalog.own_heaps import own_heaps
    from ..catalog.peers.usual import usual_missing

    catalog, ours = load_allocators(), {heap.name for heap in own_heaps()}
    here = [a.name for a in catalog.values() if a.status == "installed" and a.name not in ours and a.name not in raced]
    if here:
        remark(f"also installed and not in this race: {', '.join(here)}; all of them: heapyard compare --allocators all")
    usual = [name for name in usual_missing() if catalog[name].status == "available"]
    others = [a.name for a in catalog.values() if a.status == "available" and a.name not in usual]
    if usual:
        remark(f"missing in this race: {', '.join(usual)}; for the next one: heapyard allocators install {' '.join(usual)}")
    elif others:
        remark(f"{len(others)} more allocators can be had ({', '.join(others)}): heapyard allocators install NAME")

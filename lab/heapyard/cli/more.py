"""The closing remark on allocators that could be compared too."""

from __future__ import annotations

from .consoles import remark


def mention_more_allocators() -> None:
    """One line naming the allocators that can be installed; nothing when there are none."""
    from ..catalog.allocators import load_allocators

    names = [a.name for a in load_allocators().values() if a.status == "available"]
    if names:
        remark(f"{len(names)} more allocators can be had ({', '.join(names)}): heapyard allocators install NAME")

# SPDX-License-Identifier: Apache-2.0
"""An allocator as the lab sees it: what to inject, and what must then be found serving malloc."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Status = Literal["installed", "available", "unavailable", "broken"]

# The row for a program left exactly as it is; reports name it for what served it.
SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Allocator:
    """One allocator, or one variant of it (`glibc:tcache=0`).

    `library` is the absolute, resolved path of the object that must provide malloc; it is injected through LD_PRELOAD.
    glibc is injected too (its own libc.so.6), so that a program linked against another malloc cannot pass for a glibc row.
    Only SYSTEM has no library: nothing is injected and whatever serves is recorded.
    `env` is added to the program's environment (GLIBC_TUNABLES, MALLOC_CONF, ...).
    """

    name: str  # unique in an experiment: "jemalloc", "glibc:tcache=0", "mine"
    title: str
    version: str
    library: Path | None
    env: dict[str, str] = field(default_factory=dict)
    sha256: str = ""  # of the library file
    build_id: str = ""  # GNU build-id, hex, "" if the library carries none
    provenance: str = ""  # "Debian libjemalloc2 5.3.0-1", "crate libmimalloc-sys 0.1.49", "user: ./libmine.so"
    status: Status = "installed"
    reason: str = ""  # why it is not installed, and what would help
    usual: bool = True  # whether a comparison that names no allocators takes it
    gives_up: tuple[str, ...] = ()  # cases of `heapyard check` that an ablation fails by what it leaves out

    @property
    def base(self) -> str:
        """Name without the variant's options: `glibc` of `glibc:tcache=0`."""
        return self.name.split(":", 1)[0]

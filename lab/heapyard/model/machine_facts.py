# SPDX-License-Identifier: Apache-2.0
"""What makes a machine's kind: the facts of a snapshot that may change a ratio of allocators, and no others.

Machines with the same facts are of one kind. What differs from boot to boot (uptime, load, free memory, the clock's present
rate) is left out; so is what cancels in ratios, such as a machine's name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .huge_pages import FACT, chosen, in_words
from .units import counted, format_bytes

Snapshot = Mapping[str, Any]
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Fact:
    """`read` gives the fact of a snapshot in words, which are compared as they stand; UNKNOWN where it does not tell."""

    name: str
    read: Callable[[Snapshot], str]


def _processor(found: Snapshot) -> str:
    cpu = found.get("cpu")
    return str(cpu.get("model", UNKNOWN)) if isinstance(cpu, Mapping) else UNKNOWN


def _processors(found: Snapshot) -> str:
    usable = found.get("cpus_allowed")
    return counted(len(usable), "processor") if isinstance(usable, list) else UNKNOWN


def _quota(found: Snapshot) -> str:
    """Of the tightest control group, in processors."""
    share = found.get("cpu_quota")
    if share is None:
        limit, _, period = str(found.get("cgroup_cpu_max", "max")).partition(" ")
        share = int(limit) / int(period) if limit.isdigit() and period.isdigit() and int(period) else None
    return "no CPU quota" if share is None else f"a CPU quota of {share:.3g} processors"


def _huge_pages(found: Snapshot) -> str:
    return in_words(chosen(str(found.get(FACT, "")))) or UNKNOWN


def _memory(found: Snapshot) -> str:
    """To the nearest power of the root of two: firmware takes a little, and differently much, from equal machines."""
    table = found.get("memory_kib")
    total = table.get("MemTotal") if isinstance(table, Mapping) else None
    if not isinstance(total, int) or total <= 0:
        return UNKNOWN
    limit = str(found.get("cgroup_memory_max", "max"))
    size = min(1024 * total, int(limit)) if limit.isdigit() and int(limit) else 1024 * total
    return f"about {format_bytes(2.0 ** (round(2 * math.log2(size)) / 2))} of memory"


def _tunables(found: Snapshot) -> str:
    """glibc's per-thread cache by its name, since it is what people switch; everything else as it is set."""
    table = found.get("tunables")
    if not isinstance(table, Mapping) or not table:
        return "no tunables"
    told = []
    for name, value in sorted(table.items()):
        if name == "LD_LIBRARY_PATH":  # libraries are known by their hash, wherever they lie
            continue
        parts = str(value).split(":") if name == "GLIBC_TUNABLES" else [f"{name}={value}"]
        told += ["glibc tcache off" if part == "glibc.malloc.tcache_count=0" else part for part in parts if part]
    return ", ".join(told) or "no tunables"


def _text(key: str, words: str) -> Callable[[Snapshot], str]:
    def read(found: Snapshot) -> str:
        value = re.sub(r"\s+", " ", str(found.get(key, ""))).strip()
        return words.format(value) if value else UNKNOWN

    return read


# The documented list: docs/method.md, "Many machines", names each in this order, and a test compares the two.
FACTS = (
    Fact("processor", _processor),
    Fact("number of processors", _processors),
    Fact("CPU quota", _quota),
    Fact("architecture", _text("architecture", "{}")),
    Fact("kernel", _text("kernel", "Linux {}")),
    Fact("libc", _text("libc", "{}")),
    Fact("huge pages", _huge_pages),
    Fact("memory", _memory),
    Fact("overcommit", _text("overcommit", "overcommit {}")),
    Fact("simultaneous multithreading", _text("smt", "SMT {}")),
    Fact("frequency governor", _text("governor", "governor {}")),
    Fact("tunables", _tunables),
)


def facts_of(snapshot: Snapshot, *, inherited: bool = True) -> dict[str, str]:
    """The facts of one machine by name, in words and in the order of FACTS. Not `inherited`: no program sees the lab's
    environment, so its tunables are none of the machine's facts. O(facts)."""
    return {fact.name: fact.read(snapshot) for fact in FACTS if inherited or fact.name != "tunables"}

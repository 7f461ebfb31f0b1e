# SPDX-License-Identifier: Apache-2.0
"""The memory of a server's processes at an instant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..server.work import below

_FIELD = re.compile(r"^(VmRSS|RssAnon|VmHWM):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes, added up over `processes`."""

    rss: int
    anonymous: int
    peak: int
    processes: int


def memory_below(pid: int) -> Memory:
    """Of all processes below `pid`; those that end meanwhile are left out. O(processes): one small file of each."""
    rss = anonymous = peak = processes = 0
    for one in below(pid):
        try:
            found = dict(_FIELD.findall(Path(f"/proc/{one}/status").read_text()))
        except OSError:
            continue
        if "VmRSS" in found:  # the kernel's own and dead ones have none
            processes += 1
            rss += int(found["VmRSS"]) << 10
            anonymous += int(found.get("RssAnon", 0)) << 10
            peak += int(found.get("VmHWM", 0)) << 10
    return Memory(rss, anonymous, peak, processes)

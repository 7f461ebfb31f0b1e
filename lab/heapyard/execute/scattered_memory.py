# SPDX-License-Identifier: Apache-2.0
"""Free memory that lies in small pieces, moved together before an experiment.

A virtual machine translates each address twice. Where its free memory lies in pieces of a few pages, the second
translations of neighbouring pages lie in different cache lines. That slows heaps of small pages, and leaves heaps of huge
pages alone (docs/method.md, "Scattered free memory").
"""

from __future__ import annotations

import os
from pathlib import Path

from .machine.files import Files
from .machine.memory import COMPACT, SCATTERED, scattered_bytes

_MOST_MEMORY = 64 << 30  # the kernel goes through all of it, at a few GiB in a second, and can hardly be stopped


def move_together(root: Path = Path("/")) -> bool:
    """Whether the kernel was asked to move scattered free memory together: where there is much, and we may.

    About 1 s where there is, and what writing dirty pages to the disks takes; else one small read.
    """
    files = Files(root)
    if scattered_bytes(files) < SCATTERED or 1024 * files.table("proc/meminfo").get("MemTotal", 0) > _MOST_MEMORY:
        return False
    os.sync()  # pages on their way to a disk are not moved: on one machine they kept 1.1 of 1.2 GiB scattered
    try:
        (root / COMPACT).write_text("1")
    except OSError:
        return False  # only root may; `heapyard doctor` says how
    return True

# SPDX-License-Identifier: Apache-2.0
"""Memory that a virtual machine has to get from its host first, made ready before each trial.

Where a balloon reports free pages (virtio's feature 5, Linux's mm/page_reporting.c), the host takes what lay free for a
few seconds. The first touch then costs many times the usual: seventeen times on one machine. That would be charged to
whichever trial touches such a page, most of all to an allocator with huge pages. So the lab touches as much memory as
the trials will need and frees it at once: the kernel gives pages freed last first, and the host takes none so soon.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path

from .control_groups import memory_left
from .machine.files import Files
from .machine.memory import takes_free_pages

MIB = 1 << 20
_PROBED = 64 * MIB, 4  # bytes of a piece, pieces that are held together
SLOW = 4.0  # times the usual cost: a host that gives a page takes over ten
_SPARE = 16 * MIB
_MOST = 1 / 4  # of the free memory


def first_touch(clock: Callable[[], float] = time.perf_counter) -> float:
    """How many times as long the slowest of a few pieces of free memory takes when it is touched first as the quickest
    touched again. Some 0.1 s, or 1 s where the host has to give it."""
    size, pieces = _PROBED
    first, again, held = [], [], []
    for _ in range(pieces):
        begin = clock()
        held.append(_touched(size))
        first.append(clock() - begin)
    for piece in held:
        piece.close()
    for _ in range(pieces):
        begin = clock()
        _touched(size).close()
        again.append(clock() - begin)
    return max(first) / min(again)


def readying(files: Files | None = None) -> Callable[[float], None] | None:
    """make_ready() where trials need it on this machine, else None. Tries it out where no balloon tells."""
    files = files or Files(Path("/"))
    if takes_free_pages(files):
        return make_ready
    size, pieces = _PROBED
    if size * pieces > _MOST * free_bytes(files):
        return None
    try:
        return make_ready if first_touch() > SLOW else None
    except OSError:
        return None  # a limit on memory


def make_ready(size: float) -> None:
    """Touch about `size` bytes, and some to spare, and free them. O(size): 0.1 s for 1 GiB that is there already."""
    try:
        _touched(int(min(size + _SPARE, _MOST * free_bytes(Files(Path("/")))))).close()
    except (OSError, ValueError):
        pass  # a limit on memory: the trial does without


def free_bytes(files: Files) -> int:
    """What this process may take of memory before something else has to give way."""
    free, left = 1024 * files.table("proc/meminfo").get("MemAvailable", 0), memory_left(files)
    return free if left is None else min(free, left)


def _touched(size: int) -> mmap.mmap:
    piece = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        piece.madvise(mmap.MADV_HUGEPAGE)
    except OSError:
        pass  # a kernel without them
    page = os.sysconf("SC_PAGE_SIZE")
    piece[::page] = bytes(len(range(0, size, page)))
    return piece

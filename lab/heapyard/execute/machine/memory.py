# SPDX-License-Identifier: Apache-2.0
"""Memory and disk: how pages are given, whether there are enough, and whether the layout of processes varies."""

from __future__ import annotations

import os
from pathlib import Path

from ...model.units import format_bytes
from .files import Files
from .finding import Finding, sudo, write_command

THP = "sys/kernel/mm/transparent_hugepage/enabled"
ADDR_NO_RANDOMIZE = 0x0040000  # of personality(2)

BALLOONS = "sys/bus/virtio/drivers/virtio_balloon/virtio*/features"  # a digit for each feature, the lowest first
REPORTING = 5  # VIRTIO_BALLOON_F_REPORTING

COMPACT = "proc/sys/vm/compact_memory"
SMALL_PIECE = 64 << 10  # bytes: the translations of a page's neighbours fill a cache line at half of it

MIB, GIB = 1 << 20, 1 << 30
SCATTERED = 512 * MIB  # free in small pieces: the kernel gives these first, and a large program takes that much
SCARCE, TOO_LITTLE = 1 * GIB, 256 * MIB  # of free memory: the largest of the shipped programs holds some 500 MiB
DISK_SCARCE, DISK_TOO_LITTLE = 1 * GIB, 64 * MIB  # an experiment with its series takes some tens of MiB


def memory_findings(files: Files, results: Path) -> list[Finding]:
    free_pieces = free_pages(files), scattered_memory(files)
    return [huge_pages(files), swap(files), free_memory(files), *free_pieces, overcommit(files), layout(files), disk(results)]


def huge_pages(files: Files) -> Finding:
    mode = files.chosen(THP)
    if mode != "always":
        return Finding("huge pages", "ok", mode or "none")
    return Finding(
        "huge pages",
        "warn",
        mode,
        "a touched byte may cost 2 MiB: memory depends on how each allocator aligns its areas",
        "keep it if your servers run so, else let programs ask for them",
        write_command("madvise", f"/{THP}"),
    )


def swap(files: Files) -> Finding:
    memory = files.table("proc/meminfo")
    used = 1024 * (memory.get("SwapTotal", 0) - memory.get("SwapFree", 0))
    if used <= 0:
        return Finding("swap", "ok", "unused" if memory.get("SwapTotal") else "none")
    return Finding(
        "swap",
        "warn",
        f"{format_bytes(used)} in use",
        "what is swapped out counts as free: memory comes out too small",
        "take it back into memory, if there is room",
        f"{sudo()}swapoff -a && {sudo()}swapon -a",
    )


def free_memory(files: Files) -> Finding:
    free = files.table("proc/meminfo").get("MemAvailable")
    if free is None:
        return Finding("free memory", "ok", "unknown")
    free *= 1024
    if free >= SCARCE:
        return Finding("free memory", "ok", format_bytes(free))
    return Finding(
        "free memory",
        "bad" if free < TOO_LITTLE else "warn",
        format_bytes(free),
        "the kernel takes pages back while programs run, or ends them",
        "end what holds memory",
        "ps -eo rss,pid,args --sort=-rss | head",
    )


def takes_free_pages(files: Files) -> bool:
    """Whether a virtual machine's balloon tells the host of free pages, which then takes them. A small read."""
    return any((files.text(path) or "")[REPORTING : REPORTING + 1] == "1" for path in files.glob(BALLOONS))


def free_pages(files: Files) -> Finding:
    if not takes_free_pages(files):
        return Finding("free pages", "ok", "stay with this machine")
    return Finding(
        "free pages",
        "warn",
        "go back to the host",
        "the first touch of a page may wait for the host, whichever allocator touches it",
        "switch the balloon's free page reporting off on the host; experiments touch memory before each trial",
    )


def scattered_bytes(files: Files) -> int:
    """Free memory in pieces below SMALL_PIECE, by the free lists of the kernel's buddy allocator. A small read."""
    page, found = os.sysconf("SC_PAGE_SIZE"), 0
    for line in (files.text("proc/buddyinfo") or "").splitlines():
        counts = line.rpartition("zone")[2].split()[1:]
        found += sum(int(n) * (page << order) for order, n in enumerate(counts) if page << order < SMALL_PIECE)
    return found


def scattered_memory(files: Files) -> Finding:
    scattered = scattered_bytes(files)
    if scattered < SCATTERED:
        return Finding("pieces", "ok", "free memory lies together")
    return Finding(
        "pieces",
        "warn",
        f"{format_bytes(scattered)} of free memory lie in small pieces",
        "in a virtual machine heaps of small pages come out slower than they are, heaps of huge pages do not",
        "move it together; experiments that root runs do so",
        f"sync; {write_command('1', f'/{COMPACT}')}",
    )


def overcommit(files: Files) -> Finding:
    mode = files.number("proc/sys/vm/overcommit_memory")
    if mode != 2:
        return Finding("overcommit", "ok", {0: "heuristic", 1: "always", None: "unknown"}.get(mode, "unknown"))
    return Finding(
        "overcommit",
        "warn",
        "strict",
        "allocators that reserve address space fail here and only here",
        "allow it, unless your servers are strict too",
        f"{sudo()}sysctl vm.overcommit_memory=0",
    )


def layout(files: Files) -> Finding:
    level = files.number("proc/sys/kernel/randomize_va_space")
    try:
        here = bool(int(files.text("proc/self/personality") or "0", 16) & ADDR_NO_RANDOMIZE)
    except ValueError:
        here = False
    effect = "every launch has one and the same layout: its luck or bad luck is taken for the allocator's"
    if here:
        return Finding("ASLR", "bad", "off in this shell", effect, "start a shell without setarch -R")
    if level in (None, 2):
        return Finding("ASLR", "ok", "full" if level else "unknown")
    return Finding(
        "ASLR",
        "bad" if level == 0 else "warn",
        "off" if level == 0 else "without the heap",
        effect,
        "switch it on",
        f"{sudo()}sysctl kernel.randomize_va_space=2",
    )


def disk(results: Path) -> Finding:
    folder = next(p for p in (results, *results.parents) if p.exists())
    move = "have results elsewhere"
    if not os.access(folder, os.W_OK) or not folder.is_dir():
        return Finding(
            "results",
            "bad",
            f"{folder} cannot be written",
            "no experiment can be kept",
            move,
            "export HEAPYARD_RESULTS=FOLDER",
        )
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free >= DISK_SCARCE:
        return Finding("results", "ok", f"{format_bytes(free)} free in {folder}")
    return Finding(
        "results",
        "bad" if free < DISK_TOO_LITTLE else "warn",
        f"{format_bytes(free)} free in {folder}",
        "an experiment ends when the disk is full",
        move,
        "export HEAPYARD_RESULTS=FOLDER",
    )

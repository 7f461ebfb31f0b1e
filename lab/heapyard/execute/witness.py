# SPDX-License-Identifier: Apache-2.0
"""Proof that the intended library served malloc: compares what the witness wrote with what was wanted."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..catalog.elf import NotElfError, elf_facts
from ..model.allocator import Allocator

LOADED_AFTER = 0.1  # seconds after a program was first seen by which its libraries are surely loaded
TOGETHER = ("malloc", "calloc", "realloc", "free")  # served by one object, or blocks cross between heaps
_PID = re.compile(r"[0-9]{1,10}")
_CPLUSPLUS = ("libstdc++.so", "libc++.so", "libc++abi.so")  # their operator new calls malloc, wherever that is


@cache
def _is_cplusplus(executable: str) -> bool:
    """Does the program itself ask for a C++ library? (A C program may have one loaded for its allocator's sake.)"""
    try:
        return any(name.startswith(_CPLUSPLUS) for name in elf_facts(Path(executable)).needed)
    except (OSError, NotElfError):
        return False


@dataclass(frozen=True, slots=True)
class Testimony:
    """One line of the witness: which object provides each symbol in a process. Paths resolved."""

    pid: int
    executable: str
    providers: Mapping[str, str]


def read_testimonies(path: Path) -> list[Testimony]:
    """All lines of a witness file in order; lines that make no sense (a torn write) are passed over. O(bytes)."""
    try:
        text = path.read_text(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    except OSError:
        return []
    found = []
    for line in text.split("\n"):
        pid, *rest = line.split("\t")
        if not _PID.fullmatch(pid) or not rest:
            continue
        pairs = (word.split("=", 1) for word in rest[1:] if "=" in word)
        providers = {symbol: os.path.realpath(name) if "/" in name else rest[0] for symbol, name in pairs}
        found.append(Testimony(int(pid), rest[0], providers))
    return found


def provider_of(testimonies: Sequence[Testimony], pid: int) -> str:
    """The object that served malloc in process `pid` at its last exec, "" if nothing is known."""
    return next((t.providers.get("malloc", "") for t in reversed(testimonies) if t.pid == pid), "")


def objection(
    testimonies: Sequence[Testimony],
    processes: Sequence[Mapping[str, Any]],
    root: int,
    allocator: Allocator,
    stderr: str = "",
) -> str:
    """One sentence on why the library did not serve the whole tree, "" when it did.

    `processes` are the programs the launcher saw: (pid, name, executable, looks, mapped, has_libc, mappings_seen_at).
    O(processes + testimonies).
    """
    if allocator.library is None:
        return ""
    library = os.path.realpath(allocator.library)
    short = os.path.basename(library)
    mine = [t for t in testimonies if t.pid == root]
    ignored = next((line for line in stderr.splitlines() if "cannot be preloaded" in line), "")
    refused = f"the dynamic linker refused the library: {ignored.split('ERROR: ')[-1].strip()}" if ignored else ""
    unread = f": {refused.rstrip('.')}; another user must be able to read the file" if refused else ""
    if not mine:
        if refused:
            return refused
        return f"{short} never reached the program, which ignores LD_PRELOAD as static and privileged programs do"
    for t in testimonies:
        for symbol in TOGETHER:
            other = t.providers.get(symbol, "")
            if other != library:
                served = (other or "nothing known") + (" (its own)" if other == t.executable else "")
                return f"in {_named(t)} {symbol} was served by {served}, not by {short}{unread}"
        new = t.providers.get("_Znwm", library)
        # An operator new of the program's own, or the C++ library's, calls malloc; another allocator's does not.
        if (
            new not in (library, t.executable)
            and not os.path.basename(new).startswith(_CPLUSPLUS)
            and _is_cplusplus(t.executable)
        ):
            return f"in {_named(t)} operator new was served by {new}, not by {short}"
    proven, testified = {t.executable for t in testimonies}, {t.pid for t in testimonies}
    is_libc = short.startswith("libc.so")
    for process in processes:
        executable, looks = process.get("executable", ""), process.get("looks", 0)
        name = os.path.basename(executable) or process.get("name") or "?"
        who = f"process {process['pid']} ({name}), started by the program,"
        # A program that never testified. One look at the root is enough, a child may be caught dying in its loader.
        silent = executable and executable not in proven and looks >= (1 if process["pid"] == root else 2)
        # Where the library is the C library, a program that lost its preload is served by it all the same: it is
        # static if it is not mapped at the second look, when mappings are first read, nor at the third.
        unproven = silent and not (is_libc and (process.get("mapped") or looks < 3))
        # Looks at the mappings of a program this young may fall into the time of loading, on a busy machine also later ones: a
        # dynamic program, as those are that testified, has a C library when it is over.
        loaded = process.get("has_libc", True) or executable not in proven
        unmapped = process.get("mappings_seen_at", 0.0) >= LOADED_AFTER and loaded and not process.get("mapped")
        if (unproven or unmapped) and unread:
            return f"{who} ran without {short}{unread}"
        if unproven or unmapped:
            return f"{who} ran without {short}: it is static, or was given an environment without LD_PRELOAD"
        if not executable and looks >= 2 and process["pid"] not in testified:
            return f"{who} may not be looked into, as if it had another user: nothing shows that {short} served it"
    return ""


def _named(testimony: Testimony) -> str:
    return f"process {testimony.pid} ({os.path.basename(testimony.executable)})"

# SPDX-License-Identifier: Apache-2.0
"""Names of code that a runtime made while it ran: /tmp/perf-PID.map, which it writes for Linux's perf.

A line is `start size name`, both in hexadecimal. Node writes it with --perf-basic-prof, .NET with DOTNET_PerfMapEnabled,
CPython from 3.12 on with -X perf; the JVM by an agent. The last name of a place counts.
"""

from __future__ import annotations

import bisect
import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trace import Trace

FOLDER = Path("/tmp")
_ENTRY = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16}) (?:0x)?([0-9a-fA-F]{1,16}) (.{1,4096})")  # longer names are cut
_PYTHON = re.compile(r"py::(?P<function>.*?):(?P<file>.*)$")  # names of functions hold no colon
_SCRIPT = re.compile(
    r"(?:JS|LazyCompile|Function|Script|Eval)?:?[*~^+]*(?P<function>[^ ]*) (?P<file>[^ ]+?):(?P<line>\d+)(?::\d+)?$")


def map_of(trace: Trace) -> Path | None:
    """The map that the traced process wrote; None if there is none, or it is of another process with the same number.

    A process that was attached to may have written it long before.
    """
    path = FOLDER / f"perf-{trace.meta['pid']}.map"
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            return None
    except OSError:
        return None
    began = trace.meta["started"]
    ours = os.geteuid() == 0 or facts.st_uid in (0, os.geteuid())
    late_enough = trace.meta["attached"] or began - 1 <= facts.st_mtime
    return path if ours and late_enough and facts.st_mtime <= began + trace.duration + 60 else None


def of_no_file(trace: Trace, addresses: Sequence[int]) -> Mapping[int, list[tuple[str, str, int]]]:
    """address -> (function, file, line) of those that the process's map names; `line` is 0 where it tells none.

    O(lines of the map + addresses log lines). Empty where there is no map.
    """
    path = map_of(trace)
    try:
        text = path.read_text(errors="replace") if path else ""
    except OSError:
        return {}
    places: dict[int, tuple[int, str]] = {}
    for line in text.split("\n"):
        if told := _ENTRY.match(line):  # else it is cut off in the middle
            places[int(told[1], 16)] = int(told[2], 16), told[3]
    starts = sorted(places)
    found: dict[int, list[tuple[str, str, int]]] = {}
    for address in addresses:
        at = bisect.bisect_right(starts, address) - 1
        if at < 0:
            continue
        size, name = places[starts[at]]
        if address < starts[at] + size:
            # Where the tracer has read Python's frames, its trampolines are beside them, not in their place.
            read_already = bool(trace.scripts) and _PYTHON.match(name) is not None
            found[address] = [(name, "", 0) if read_already else frame_of(name)]
    return found


def frame_of(name: str) -> tuple[str, str, int]:
    """What a runtime calls its code, as function, file and line."""
    if python := _PYTHON.match(name):
        return python["function"], python["file"], 0
    if script := _SCRIPT.match(name):
        return script["function"] or "(anonymous)", script["file"], int(script["line"])
    return name, "", 0

# SPDX-License-Identifier: Apache-2.0
"""A run of servers for hours: its folder, by what it is; its record; its answer."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..execute.hours.campaign import NOTES
from ..execute.hours.kept import end_leftovers
from ..execute.hours.notebook import read_notebook
from ..model import places
from ..model.errors import HeapyardError
from ..model.hours import HoursAnswer, Noted, latency_of
from ..model.shared import TRACE_SUFFIX

if TYPE_CHECKING:
    from ..catalog.server_command import Load
    from ..model.allocator import Allocator
    from ..model.program import Program
    from ..stats.hours import Live

FACTS = "run.json"
SERVERS = "servers"  # beside the test suites' outputs, which lie in folders by the names of libraries
HOUR = 3600.0
ROWS = 10  # of a run that is too short for a row per hour
_LEAST_HOURS = 3.0


def period_of(seconds: float) -> float:
    """Seconds of a row of the report: an hour, or a tenth of a run of less than three."""
    return HOUR if seconds >= _LEAST_HOURS * HOUR else seconds / ROWS


def folder_of(program: Program, load: Load, allocators: Sequence[Allocator], profile: bool) -> Path:
    """Where the run's record lies, made if need be: the same for the same server, load and libraries, so that a command goes on."""
    what: dict[str, Any] = {
        "command": program.command, "cwd": str(program.cwd), "env": program.env, "profile": profile,
        "load": {name: str(getattr(load, name)) for name in load.__dataclass_fields__ if name != "lead"},
        "allocators": [[a.name, a.sha256, sorted(a.env.items())] for a in allocators],
    }
    identity = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:12]
    folder = places.soaked() / SERVERS / f"{program.name}-{identity}"
    folder.mkdir(parents=True, exist_ok=True)
    server = program.server
    lines = [words[-1] for words in (server.client, *server.more_clients)] if server else []  # with {rate} filled in
    facts = {"title": shlex.join((program.argv0 or program.command[0], *program.command[1:])), "loads": lines,
             "lead": load.lead, "allocators": [a.name for a in allocators]}
    (folder / FACTS).write_text(json.dumps(facts, indent=1))
    return folder


def forget(folder: Path) -> None:
    """Ends servers that an earlier command left in the folder, and removes all that is in it."""
    end_leftovers(folder)
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != FACTS:
            path.unlink(missing_ok=True)


def answer_of_run(folder: Path, machine: Mapping[str, object] = {}) -> HoursAnswer:
    """What the record in `folder` says by now. O(its bytes), and those of the profiles."""
    from ..stats.hours import answer_of

    facts, contents = json.loads((folder / FACTS).read_text()), read_notebook(folder / NOTES)
    known = [contents.servers[name] for name in facts["allocators"] if name in contents.servers]
    latency = latency_of([one for server in known for one in server.passes], facts["lead"])
    period = period_of(max((server.seconds for server in known), default=0.0) or contents.seconds)
    servers = tuple(answer_of(server, period, latency, _live_of(server)) for server in known)
    return HoursAnswer(facts["title"], tuple(facts["loads"]), servers, contents.seconds, period, contents.mode, contents.why,
                       latency, contents.complete, machine, str(folder))


def _live_of(server: Noted) -> dict[int, Live]:
    """Bytes of live blocks at each sample, of every stretch that was profiled; all processes together."""
    import numpy as np

    from ..profile.trace import load_trace
    from ..stats.hours import Live

    found: dict[int, Live] = {}
    traces = ""
    for stretch in server.stretches:
        traces = stretch.traces or ("" if stretch.fresh else traces)  # a server that was found again is profiled on
        clocks = np.array([s.clock for s in server.samples if s.stretch == stretch.number])
        total, interval, seen = np.zeros(len(clocks)), 0.0, False
        for path in sorted(Path(traces).glob(f"*{TRACE_SUFFIX}")) if traces and len(clocks) else ():
            try:
                trace = load_trace(path)
            except HeapyardError:
                continue  # it was cut off before it told anything
            if len(trace.totals):
                times = float(trace.meta["started"]) + trace.totals[:, 0]
                last = times[-1] if trace.finished else np.inf
                total += np.where(clocks <= last, np.interp(clocks, times, trace.totals[:, 1], left=0.0), 0.0)
                interval, seen = max(interval, trace.interval), True
        if seen:
            found[stretch.number] = Live(total, interval)
    return found

# SPDX-License-Identifier: Apache-2.0
"""Who else takes the processor's time: other processes, the hypervisor, a quota."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass

from ...model.units import format_duration
from ..control_groups import quota_folders
from ..guards import OTHERS_LIMIT, STEAL_LIMIT
from .files import Files
from .finding import Finding

# A process at 5 % of a processor moves a time of 1 s by up to 50 ms, the whole width of what is usually looked for.
# What is "bad" is what the guards of an experiment would repeat a block for.
BUSY = 0.05  # of one processor
STEAL = 0.005  # of all processors' time
PRESSURE, TOO_MUCH_PRESSURE = 5.0, 20.0  # % of the last 10 s in which a task that could run had to wait


@dataclass(frozen=True, slots=True)
class _Look:
    """Counters at one moment; ticks are of 1/100 s, as the kernel reports them."""

    at: float
    ticks: dict[int, tuple[int, str]]  # pid -> (user + system, name)
    total: int
    steal: int
    swapped: int
    throttled: int  # periods, summed over the cgroups above us


def load_findings(files: Files, seconds: float) -> list[Finding]:
    """Looks twice, `seconds` apart; nothing runs in between. O(processes)."""
    folders = quota_folders(files)
    before = _look(files, folders)
    time.sleep(seconds)
    after = _look(files, folders)
    return [
        others(before, after),
        pressure(files),
        steal(before, after),
        quota(files, folders, before, after),
        swapping(before, after),
    ]


def _look(files: Files, folders: list[str]) -> _Look:
    ticks: dict[int, tuple[int, str]] = {}
    for path in files.glob("proc/[0-9]*/stat"):
        pid = int(path.split("/")[1])
        # pid (name) state ...: the name may hold anything, so what follows it is found from the last parenthesis.
        found = re.fullmatch(r"\d+ \((.*)\) \S (.*)", files.text(path) or "", re.DOTALL)
        if found and pid != os.getpid():
            fields = found[2].split()
            ticks[pid] = int(fields[10]) + int(fields[11]), found[1]
    line = re.search(r"^cpu +(.*)$", files.text("proc/stat") or "", re.MULTILINE)
    times = [int(field) for field in line[1].split()[:8]] if line else []
    pages = files.table("proc/vmstat")
    return _Look(
        time.monotonic(),
        ticks,
        sum(times),
        times[7] if len(times) > 7 else 0,
        pages.get("pswpin", 0) + pages.get("pswpout", 0),
        sum(files.table(f"{folder}/cpu.stat").get("nr_throttled", 0) for folder in folders),
    )


def others(before: _Look, after: _Look) -> Finding:
    """Processes that took processor time between the two looks."""
    span = max(after.at - before.at, 1e-9) * os.sysconf("SC_CLK_TCK")
    shares = {pid: (now - before.ticks[pid][0]) / span for pid, (now, _) in after.ticks.items() if pid in before.ticks}
    busy = sorted((pid for pid, share in shares.items() if share >= BUSY), key=lambda pid: -shares[pid])
    if not busy:
        return Finding("other processes", "ok", "idle")
    named = ", ".join(f"{after.ticks[pid][1]} ({shares[pid]:.0%} of a processor)" for pid in busy[:3])
    more = f" and {len(busy) - 3} more" if len(busy) > 3 else ""
    return Finding(
        "other processes",
        "bad" if sum(shares.values()) >= OTHERS_LIMIT * (os.cpu_count() or 1) else "warn",
        named + more,
        "they take the program's turn and empty its caches",
        "end them, or wait until they have ended",
        f"ps -o pid,pcpu,args -p {','.join(map(str, busy[:10]))}",
    )


def pressure(files: Files) -> Finding:
    load = (files.text("proc/loadavg") or "unknown").split()[0]
    found = re.search(r"^some avg10=(\S+)", files.text("proc/pressure/cpu") or "", re.MULTILINE)
    if not found:
        return Finding("load", "ok", f"load {load}; the kernel does not tell how long tasks waited")
    waited = float(found[1])
    state = f"load {load}; tasks waited for a processor in {waited:.1f} % of the last 10 s"
    if waited < PRESSURE:
        return Finding("load", "ok", state)
    return Finding(
        "load",
        "bad" if waited >= TOO_MUCH_PRESSURE else "warn",
        state,
        "the program would wait too, and its wall time count the waiting",
        "wait until the machine is idle",
        "cat /proc/pressure/cpu",
    )


def steal(before: _Look, after: _Look) -> Finding:
    now = (after.steal - before.steal) / max(after.total - before.total, 1)
    ever = after.steal / max(after.total, 1)
    state = f"{now:.1%} now, {ever:.2%} since start"
    worst = max(now, ever)
    if worst < STEAL:
        return Finding("steal", "ok", state)
    return Finding(
        "steal",
        "bad" if now > STEAL_LIMIT else "warn",
        state,
        "the host runs others in this machine's time",
        "measure at a quieter hour, or on a machine of your own; blocks with steal are repeated",
    )


def swapping(before: _Look, after: _Look) -> Finding:
    pages = after.swapped - before.swapped
    if pages <= 0:
        return Finding("swapping", "ok", "none now")
    return Finding(
        "swapping",
        "bad",
        f"{pages} pages in {format_duration(after.at - before.at)}",
        "programs wait for the disk",
        "end what holds memory",
        "ps -eo rss,pid,args --sort=-rss | head",
    )


def quota(files: Files, folders: list[str], before: _Look, after: _Look) -> Finding:
    limits = [limit for folder in folders if (limit := _processors_allowed(files, folder)) is not None]
    if not limits:
        return Finding("quota", "ok", "none")
    grown = after.throttled - before.throttled
    return Finding(
        "quota",
        "bad" if grown > 0 else "warn",
        f"{min(limits):g} processors{'; used up just now' if grown > 0 else ''}",
        "once the quota of a period is used up, the program stands still until the next",
        "start the container without --cpus, or the service without CPUQuota",
    )


def _processors_allowed(files: Files, folder: str) -> float | None:
    """How many processors the cgroup may fill, None without a limit."""
    limit, period = ((files.text(f"{folder}/cpu.max") or "").split() + ["", ""])[:2]
    if not limit:
        limit, period = (files.text(f"{folder}/cpu.cfs_{what}_us") or "" for what in ("quota", "period"))
    if not limit or not period or limit in ("max", "-1"):
        return None
    return int(limit) / int(period)

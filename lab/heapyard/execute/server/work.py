# SPDX-License-Identifier: Apache-2.0
"""What a tree of processes has done so far, processor time and page faults, and the memory it has."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Work:
    """Seconds of processor time, and minor faults."""

    cpu: float
    faults: int

    def since(self, before: Work) -> Work:
        return Work(self.cpu - before.cpu, self.faults - before.faults)


def work_below(pid: int, group: Path | None = None) -> Work:
    """Of all processes below `pid`, those that ended and were waited for included. O(processes).

    The processor time is the group's where there is one, to a microsecond; else it is counted in clock ticks of 10 ms.
    """
    ticks = faults = 0
    for one in below(pid):
        fields = _fields(one)
        if fields:
            faults += int(fields[7]) + int(fields[8])
            ticks += sum(int(field) for field in fields[11:15])
    return Work(_seconds_of(group) if group else ticks / _TICK, faults)


def resident_below(pid: int) -> int:
    """Bytes resident in all processes below `pid`; what two of them share counts in each. O(processes)."""
    return sum(int(fields[21]) * _PAGE for one in below(pid) if (fields := _fields(one)))


def first_child(pid: int) -> int | None:
    """The process it started first, of those that still run."""
    return next(iter(_children(pid)), None)


def below(pid: int) -> list[int]:
    """Every process below `pid`, it excepted. O(processes)."""
    found, open_ = [], _children(pid)
    while open_:
        found.append(one := open_.pop())
        open_ += _children(one)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found  # the process has ended
    for thread in threads:
        try:
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
        except OSError:
            continue  # the thread has ended
    return found


def _fields(pid: int) -> list[str]:
    """Of /proc/PID/stat from the state on, the third of proc(5); empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _seconds_of(group: Path) -> float:
    for line in (group / "cpu.stat").read_text().splitlines():
        if line.startswith("usage_usec "):
            return int(line.split()[1]) * 1e-6
    return 0.0

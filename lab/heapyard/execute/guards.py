"""What may have disturbed a trial from outside: read before and after it, judged by limits that never see the response."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# Limits are fixed here, before any experiment. Each is a share of the machine's time or an event that should not happen.
STEAL_LIMIT = (
    0.05  # of all CPU time: other guests took it; a tenth of that is usual on a shared host and averages out in blocks
)
OTHERS_LIMIT = 0.25  # of all CPU time: used by processes outside the trial (package updates, browsers, builds)
LEAST_SPAN = 0.2  # seconds: over less, the kernel's 10 ms accounting ticks say nothing about shares


def read_guards(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> dict[str, float]:
    """Counters as the kernel has them now; those it does not have are absent. Costs three small reads."""
    found: dict[str, float] = {}
    ticks = os.sysconf("SC_CLK_TCK")
    for line in _lines(proc / "stat"):
        if line.startswith("cpu "):
            user, nice, system, idle, iowait, irq, softirq, steal = (float(w) for w in line.split()[1:9])
            found |= {
                "steal": steal / ticks,
                "busy": (user + nice + system + irq + softirq) / ticks,
                "all": (user + nice + system + idle + iowait + irq + softirq + steal) / ticks,
            }
    for line in _lines(proc / "vmstat"):
        name, _, value = line.partition(" ")
        if name in ("pswpin", "pswpout"):
            found[name] = float(value)
    for line in _lines(cgroup / "cpu.stat"):
        name, _, value = line.partition(" ")
        if name == "nr_throttled":
            found["throttled"] = float(value)
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def judge(
    before: Mapping[str, float], after: Mapping[str, float], own_cpu: float
) -> tuple[dict[str, float], tuple[str, ...]]:
    """(what happened between, guards that tripped in words). `own_cpu`: CPU seconds of the trial itself and its client."""
    delta = {name: after[name] - before[name] for name in after if name in before}
    span = delta.get("all", 0.0)
    readings: dict[str, float] = {}
    tripped = []
    if span > 0:
        readings["steal_share"] = delta["steal"] / span
        readings["others_share"] = max(0.0, delta["busy"] - own_cpu) / span
        if span / (os.cpu_count() or 1) >= LEAST_SPAN:
            if readings["steal_share"] > STEAL_LIMIT:
                tripped.append(f"other guests of the host took {readings['steal_share']:.0%} of the CPU time")
            if readings["others_share"] > OTHERS_LIMIT:
                tripped.append(f"other processes used {readings['others_share']:.0%} of the CPU time")
    for name, words in (
        ("throttled", "the control group was throttled"),
        ("pswpin", "pages were swapped in"),
        ("pswpout", "pages were swapped out"),
    ):
        if name in delta:
            readings[name] = delta[name]
            if delta[name] > 0:
                tripped.append(words)
    return readings, tuple(tripped)

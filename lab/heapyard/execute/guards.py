# SPDX-License-Identifier: Apache-2.0
"""What may have disturbed a trial: read before and after it, judged by limits that never see the response."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from .control_groups import quota_folders
from .machine.files import Files

# Limits are fixed here, before any experiment: a share of the machine's time, or an event that should not happen.
# Stolen by other guests of the host, of all CPU time. A quiet virtual machine shows a tenth of a percent or less; one
# percent, spread evenly, averages out over blocks; at five, a burst within one trial moves it by more than what is
# looked for.
STEAL_LIMIT = 0.05
# Used by processes outside the trial (package updates, browsers, builds), of all CPU time. On two processors a quarter
# is half of one: from there on the program, or its launcher, waits for its turn.
OTHERS_LIMIT = 0.25
LEAST_SPAN = 0.2  # seconds: over less, the kernel's 10 ms accounting ticks say nothing about shares


def read_guards(root: Path = Path("/")) -> dict[str, float]:
    """Counters as the kernel has them now; those it does not have are absent. About ten small reads."""
    files = Files(root)
    found: dict[str, float] = {}
    ticks = os.sysconf("SC_CLK_TCK")
    for line in (files.text("proc/stat") or "").splitlines():
        if line.startswith("cpu "):
            user, nice, system, idle, iowait, irq, softirq, steal = (float(w) for w in line.split()[1:9])
            found |= {
                "steal": steal / ticks,
                "busy": (user + nice + system + irq + softirq) / ticks,
                "all": (user + nice + system + idle + iowait + irq + softirq + steal) / ticks,
            }
    found |= {name: float(n) for name, n in files.table("proc/vmstat").items() if name in ("pswpin", "pswpout")}
    # A quota may be set on any group above ours: a container's, a service's, a user's.
    tables = [files.table(f"{folder}/cpu.stat") for folder in quota_folders(files)]
    if throttled := [table["nr_throttled"] for table in tables if "nr_throttled" in table]:
        found["throttled"] = float(sum(throttled))
    if waited := re.search(r"^some .*\btotal=(\d+)", files.text("proc/pressure/cpu") or "", re.MULTILINE):
        found["cpu_wait"] = int(waited[1]) * 1e-6
    return found


def judge(
    before: Mapping[str, float], after: Mapping[str, float], own_cpu: float
) -> tuple[dict[str, float], tuple[str, ...]]:
    """(what happened between, guards that tripped in words).

    `own_cpu`: CPU seconds of the trial itself and its client.
    """
    delta = {name: after[name] - before[name] for name in after if name in before}
    span = delta.get("all", 0.0)
    # Recorded, not judged: the program's own threads wait for each other's processors too.
    readings = {"cpu_wait": delta["cpu_wait"]} if "cpu_wait" in delta else {}
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

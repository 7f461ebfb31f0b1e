# SPDX-License-Identifier: Apache-2.0
"""Where the kernel keeps the accounts of the control groups this process is in."""

from __future__ import annotations

from .machine.files import Files


def group_folders(files: Files, controller: str) -> list[str]:
    """The folders of this process's cgroup and of all above it, of version 2 and of the controller's version 1."""
    found = []
    for line in (files.text("proc/self/cgroup") or "").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" or controller in controllers.split(","):
            mount = "sys/fs/cgroup" if number == "0" else f"sys/fs/cgroup/{controller}"
            parts = path.strip("/").split("/") if path.strip("/") else []
            found += ["/".join([mount, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
    return found


def quota_folders(files: Files) -> list[str]:
    """Those with cpu.stat."""
    return [folder for folder in group_folders(files, "cpu") if files.text(f"{folder}/cpu.stat") is not None]


def memory_left(files: Files) -> int | None:
    """Bytes that the tightest limit of a group leaves; None where there is none."""
    left = []
    for folder in group_folders(files, "memory"):
        for limit, usage in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            most, now = files.number(f"{folder}/{limit}"), files.number(f"{folder}/{usage}")
            if most is not None and now is not None:
                left.append(max(most - now, 0))
    return min(left, default=None)


def cpu_quota(files: Files) -> float | None:
    """Processors' worth of time that the tightest quota of a group gives; None where there is none."""
    shares = []
    for folder in group_folders(files, "cpu"):
        limit, _, period = (files.text(f"{folder}/cpu.max") or "").partition(" ")
        limit = limit or (files.text(f"{folder}/cpu.cfs_quota_us") or "")
        period = period or (files.text(f"{folder}/cpu.cfs_period_us") or "")
        if limit.isdigit() and period.isdigit() and int(period):
            shares.append(int(limit) / int(period))
    return min(shares, default=None)

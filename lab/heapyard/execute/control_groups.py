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

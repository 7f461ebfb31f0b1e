# SPDX-License-Identifier: Apache-2.0
"""Where the kernel keeps the accounts of the control groups this process is in."""

from __future__ import annotations

from .machine.files import Files


def quota_folders(files: Files) -> list[str]:
    """The folders with cpu.stat of this process's cgroup and of all above it, of version 2 and 1."""
    found = []
    for line in (files.text("proc/self/cgroup") or "").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" or "cpu" in controllers.split(","):
            mount = "sys/fs/cgroup" if number == "0" else "sys/fs/cgroup/cpu"
            parts = path.strip("/").split("/") if path.strip("/") else []
            found += ["/".join([mount, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
    return [folder for folder in found if files.text(f"{folder}/cpu.stat") is not None]

# SPDX-License-Identifier: Apache-2.0
"""Which source gives the memory of this machine's trials; decided once, before an experiment's first trial."""

from __future__ import annotations

import os

from ..model.errors import HeapyardError
from .launcher import Launch, Running
from .machine.finding import Finding
from .memory_groups import own_group
from .scratch import ScratchFolder


def obstacle_to_groups() -> str:
    """Why a trial cannot have a control group for itself here; "" when it can.

    Found by trying: /bin/true runs in one, and the kernel tells its peak. About 10 ms; nothing stays behind.
    """
    try:
        with ScratchFolder() as at, own_group() as group:
            launch = Launch(["/bin/true"], {}, at / "json", at / "out", at / "errors", at, timeout=10, group=group)
            with Running(launch) as running:
                found, complaint = running.result()
    except HeapyardError as error:
        return error.message
    if found.get("group_peak"):
        return ""
    return complaint or f"a process cannot be moved into a control group ({os.strerror(found.get('error', 0))})"


def source_finding(obstacle: str) -> Finding:
    """For the doctor: what charged memory comes from here. Either is sound."""
    check = obstacle or "each trial's control group gives a second opinion"
    return Finding("charged memory", "ok", f"added up from looks at every process; {check}")

"""Where the charged memory of this machine's trials comes from: decided once, before an experiment's first trial."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..model.errors import HeapyardError
from ..model.experiment import Settings
from ..model.leading import CHARGED, GROUP_CHARGED
from .launcher import Launch, Running
from .machine_finding import Finding
from .memory_groups import group_for

_BY_GROUPS = Settings(memory_metric=GROUP_CHARGED)


@dataclass(frozen=True, slots=True)
class Source:
    """`metric`: the response of memory that new experiments here lead with. `obstacle`: why it is not the group's."""

    metric: str
    obstacle: str = ""

    def told(self) -> str:
        if self.metric == GROUP_CHARGED:
            return "memory is what the kernel charges each trial's control group for"
        return f"memory is added up from looks at each process: {self.obstacle}"


def memory_source() -> Source:
    """Found by trying: /bin/true runs in a group of its own, and the kernel tells its peak. About 10 ms; changes nothing."""
    try:
        with tempfile.TemporaryDirectory(prefix="heapyard-group-") as name, group_for(_BY_GROUPS) as group:
            folder = Path(name)
            told = Launch(["/bin/true"], {}, folder / "json", folder / "out", folder / "errors", folder, timeout=10, group=group)
            with Running(told) as running:
                found, complaint = running.result()
    except HeapyardError as error:
        return Source(CHARGED, error.message)
    if found.get("group_peak"):
        return Source(GROUP_CHARGED)
    return Source(CHARGED, complaint or f"a process cannot be moved into a control group: {os.strerror(found.get('error', 0))}")


def source_finding(source: Source) -> Finding:
    """For the doctor: either source is sound."""
    return Finding("charged memory", "ok", source.told().removeprefix("memory is "))

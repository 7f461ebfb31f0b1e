# SPDX-License-Identifier: Apache-2.0
"""Where the memory of each allocator lies: after an experiment, one traced launch of each program under each.

The heap profiler samples blocks, and the kernel says what is resident (docs/tracer.md). A launch under it is no trial: its
time counts for nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.memory_parts import MemoryParts
from ..model.shared import TRACE_SUFFIX, Resident

if TYPE_CHECKING:
    from ..model.experiment import Experiment, Settings, Treatment
    from ..model.program import Program
    from ..profile.account import Account

Watch = Callable[[int, int, str], None]  # launches done, launches in all, what is launched now


def memory_parts(experiment: Experiment, stop: threading.Event, watch: Watch, say: Callable[[str], None]) -> Iterator[MemoryParts]:
    """One after another, until `stop`; what cannot be traced is said and left out. A program's run each, a little longer."""
    pairs = [(program, treatment) for program in experiment.programs for treatment in experiment.treatments
             if treatment.role == "treatment" and "tracer" not in treatment.levels]
    for done, (program, treatment) in enumerate(pairs):
        if stop.is_set():
            return
        name = f"{program.name} under {treatment.label}"
        watch(done, len(pairs), name)
        found = _traced(program, treatment, experiment.settings, stop)
        if stop.is_set():
            return
        if isinstance(found, str):
            say(f"{name} says nothing of its memory: {found}")
        else:
            yield _parts(program.name, treatment.label, found)
    watch(len(pairs), len(pairs), "")


def _traced(program: Program, treatment: Treatment, settings: Settings, stop: threading.Event) -> Account | str:
    """The account of its largest process, or why there is none."""
    from ..execute.scratch import ScratchFolder
    from ..execute.trial import run_trial
    from ..profile.account import fullest
    from ..profile.library import main_trace
    from ..profile.trace import load_trace

    traced = replace(treatment, levels={**treatment.levels, "tracer": "sampled"})
    with ScratchFolder() as folder:
        outcome = run_trial(program, traced, settings, pad=0, folder=folder, stop=stop)
        if outcome.status != "ok":
            return outcome.reason or outcome.status
        traces: list[Path] = sorted(folder.rglob(f"*{TRACE_SUFFIX}"))
        if not traces:
            return "it left no trace"
        account = fullest(load_trace(main_trace(traces)).accounts)
        return account or "it ended before anybody could look"


def _parts(program: str, allocator: str, account: Account) -> MemoryParts:
    sizes = {part.key: part.bytes for part in account.parts}
    parts = {key: sizes[key] for key in ("live", "rounding", "allocator")}
    parts["other"] = account.resident - sum(parts.values())
    return MemoryParts(program, allocator, account.resident, parts, account.rest[Resident.HUGE])

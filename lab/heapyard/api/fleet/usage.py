# SPDX-License-Identifier: Apache-2.0
"""A fleet as verbs see it: may it be used, what is out, how to call it back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ...model.errors import HeapyardError, UsageError
from ...model.fleet import Fleet

if TYPE_CHECKING:
    import threading

    from ...execute.experiment import Blocks
    from .engine import Job
    from ...model.experiment import Experiment
    from ...store import StoredJournal

LOGIN = (
    "this machine can give jobs to Slurm and may be a login node, which must not compute: "
    "--fleet slurm measures on the cluster's nodes"
)


@dataclass(frozen=True, slots=True)
class Away:
    """A block that was given out. `state` in the engine's words; "back": it waits to be taken in, "lost": no job has it."""

    block: int
    workload: str
    stage: str
    job: str
    state: str
    node: str = ""
    since: str = ""
    why: str = ""


def check_fleet(fleet: Fleet, experiment: Experiment | None = None) -> None:
    """UsageError where the fleet cannot be used from here, or not for this experiment. Half a second where it can."""
    if not fleet.engine:
        return
    if experiment is not None and experiment.settings.limits:
        raise UsageError("a search for capacity runs on one machine", remedy="Leave out --fleet.")
    if fleet.engine == "slurm":
        from .slurm import require_slurm

        require_slurm(fleet)


def on_login_node() -> bool:
    """May this be a machine from which a cluster is used, and not one that computes?"""
    from .slurm import on_login_node

    return on_login_node()


def dispatch(experiment: Experiment, journal: StoredJournal, stop: threading.Event) -> Blocks:
    """Runs the blocks of the experiment on its fleet."""
    from .dispatch import Dispatch
    from .engine import engine_of
    from .room import room_of

    fleet = experiment.settings.fleet
    room = room_of(journal.folder, fleet)
    return Dispatch(experiment, journal, engine_of(fleet, room, journal.id), room, stop)


def experiments_away(parent: Path | None = None) -> list[Path]:
    """Folders of experiments that have blocks out, newest first."""
    from ...store.folders import experiment_folders

    return [folder for folder in experiment_folders(parent) if away(folder, ask=False)]


def away(folder: Path, *, ask: bool = True) -> list[Away]:
    """The blocks of an experiment that are out, by index. `ask`: the engine too, for their jobs."""
    from .lease import holder_of
    from .parcel import PARCEL, read_given
    from .room import room_of
    from ...store.records import plan_of, settings_of
    from ...store.returned import CLOSING

    fleet = settings_of(folder).fleet
    if not fleet.engine:
        return []
    room = room_of(folder, fleet)
    out = [b for b, status in plan_of(folder) if status in ("planned", "started") and (room.block(b.index) / PARCEL).exists()]
    jobs = _jobs(folder, fleet) if ask and out else {}
    queued = next((job for job in (jobs or {}).values() if not job.node), None)  # any of them runs what nobody has claimed
    found = []
    for block in out:
        place = room.block(block.index)
        given, holder = read_given(place), holder_of(place)
        name = holder.job if holder else given.job if given else ""
        job = jobs.get(name) if jobs else None
        if holder is None and queued is not None and (job is None or job.node):
            job, name = queued, queued.id
        if (place / CLOSING).exists():
            state = "back"
        else:
            state = job.state if job else "unknown" if jobs is None else "lost"
        node = holder.holder if holder else job.node if job else ""
        since = _clock(holder.since) if holder else _day(job.since) if job else ""
        found.append(Away(block.index, block.workload, block.stage, name, state, node, since, job.why if job else ""))
    return found


def cancel_jobs(folder: Path) -> int:
    """End the experiment's jobs, queued and running; how many. HeapyardError when the engine does not answer."""
    from .engine import engine_of
    from .room import room_of
    from ...store.records import settings_of

    fleet = settings_of(folder).fleet
    if not fleet.engine:
        raise UsageError(f"{folder.name} runs on one machine, and has no jobs", remedy="Ctrl-C ends it.")
    jobs = _jobs(folder, fleet)
    if jobs is None:
        raise HeapyardError("Slurm does not answer", remedy="Try it again, or see: squeue --me")
    engine_of(fleet, room_of(folder, fleet), folder.name).cancel(jobs.keys())
    return len(jobs)


def _jobs(folder: Path, fleet: Fleet) -> dict[str, Job] | None:
    from .engine import engine_of
    from .room import room_of

    if fleet.engine == "slurm":
        from .slurm import require_command

        require_command()
    return engine_of(fleet, room_of(folder, fleet), folder.name).jobs()


def _clock(seconds: float) -> str:
    return time.strftime("%d %b %H:%M", time.localtime(seconds))


def _day(text: str) -> str:
    """Slurm's 2026-11-27T07:10:02 as the clock of a person."""
    try:
        return datetime.fromisoformat(text).strftime("%d %b %H:%M")
    except ValueError:
        return ""

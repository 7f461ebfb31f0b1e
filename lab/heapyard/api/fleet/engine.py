# SPDX-License-Identifier: Apache-2.0
"""What gives blocks to machines, and knows whether their jobs live."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...model.fleet import Fleet
from .parcel import job_name
from .room import Room


@dataclass(frozen=True, slots=True)
class Job:
    """A job that is queued or runs. `since`: when it began, or was queued, as the engine writes it."""

    id: str
    state: str  # in the engine's words: PENDING, RUNNING, ...
    node: str = ""
    since: str = ""
    why: str = ""  # it waits

    @property
    def put_back(self) -> bool:
        """Whether it waits for a second begin, as Slurm does for two minutes after a requeue."""
        return self.state.startswith("REQUEUE") or (self.state == "PENDING" and self.why == "BeginTime")


class Engine(Protocol):
    """`most`: blocks that may be given out at once. `stays`: jobs go on when the controller ends. `ask`: seconds between
    questions about jobs."""

    most: int
    ask: float
    stays: bool

    def submit(self, folders: Sequence[Path], *, seconds: float, at_once: int, without: Collection[str]) -> list[str]:
        """A job for each block's folder, `at_once` of them at the same time (0: all); their ids.

        A job runs any block that is out, not just that one (agent.work). It may take `seconds` and does not run on the
        nodes `without`. HeapyardError in the engine's own words.
        """

    def jobs(self) -> dict[str, Job] | None:
        """The experiment's jobs that are queued or run, by id; None when the engine does not answer."""

    def last_words(self, job: str) -> str:
        """The last line that a job said before it ended, "" if none."""

    def cancel(self, jobs: Collection[str]) -> None: ...


def engine_of(fleet: Fleet, room: Room, experiment: str) -> Engine:
    """The engine that the user asked for."""
    if fleet.engine == "slurm":
        from .slurm import Slurm

        return Slurm(fleet, room, job_name(experiment))
    from .processes import Processes

    return Processes(room)


def last_line(jobs: Path, job: str) -> str:
    """Of what submitit's job wrote to its standard error."""
    try:
        lines = (jobs / f"{job}_0_log.err").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return last.removeprefix("heapyard.model.errors.").removeprefix("HeapyardError: ")[:300]

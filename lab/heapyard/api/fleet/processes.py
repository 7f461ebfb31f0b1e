# SPDX-License-Identifier: Apache-2.0
"""An engine without a cluster: a process of this machine for each block, one at a time. It shows how blocks travel."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .agent import work
from .engine import Job, last_line
from .room import Room


class Processes:
    most, stays, ask = 1, False, 0.5

    def __init__(self, room: Room):
        self._room = room
        self._started: dict[str, Any] = {}

    def submit(self, folders: Sequence[Path], *, seconds: float, at_once: int, without: Collection[str]) -> list[str]:
        from submitit import LocalExecutor

        executor = LocalExecutor(self._room.jobs, python=f"{shlex.quote(sys.executable)} -I")
        executor.update_parameters(timeout_min=seconds / 60)
        ids = []
        for folder in folders:
            job = executor.submit(work, str(folder), seconds)
            self._started[job.job_id] = job
            ids.append(job.job_id)
        return ids

    def jobs(self) -> dict[str, Job]:
        """Of this session those that were started; of earlier ones, those whose process is still one of submitit's."""
        known = {path.name.partition("_")[0] for path in self._room.jobs.glob("*_submitted.pkl")}
        return {job: Job(job, "RUNNING", "this machine") for job in known if self._lives(job)}

    def last_words(self, job: str) -> str:
        return last_line(self._room.jobs, job)

    def cancel(self, jobs: Collection[str]) -> None:
        for job in jobs:
            if self._lives(job):
                with suppress(OSError, ValueError):
                    os.kill(int(job), signal.SIGINT)

    def _lives(self, job: str) -> bool:
        if job in self._started:
            return not self._started[job].done()
        try:
            return b"submitit" in Path("/proc", job, "cmdline").read_bytes()
        except OSError:
            return False

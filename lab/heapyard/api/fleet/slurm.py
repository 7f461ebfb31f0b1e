# SPDX-License-Identifier: Apache-2.0
"""Slurm: each block is a job that has a node to itself, the blocks of a stage are one array."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from ...model.errors import HeapyardError, UsageError
from ...model.fleet import Fleet
from .agent import SIGNAL_SECONDS, work
from .engine import Job, last_line
from .room import Room

ASK = 5.0  # seconds between two squeues: a cluster has many users
PATIENCE = 60.0  # seconds for one of Slurm's commands
MOST = 1000  # blocks of one array: Slurm's own default of MaxArraySize
_CONFIGURED = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf", "/usr/local/etc/slurm.conf")
_FORMAT = "%i|%T|%N|%S|%V|%r"


class Slurm:
    most, stays, ask = MOST, True, ASK

    def __init__(self, fleet: Fleet, room: Room, name: str):
        self._fleet, self._room, self._name = fleet, room, name

    def submit(self, folders: Sequence[Path], *, seconds: float, at_once: int, without: Collection[str]) -> list[str]:
        from submitit import SlurmExecutor
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        executor = SlurmExecutor(self._room.jobs, python=f"{shlex.quote(sys.executable)} -I")
        executor.update_parameters(**self._parameters(seconds, at_once or len(folders), without))
        try:
            jobs = executor.map_array(work, [str(folder) for folder in folders], [seconds] * len(folders))
        except (FailedJobError, FailedSubmissionError, OSError, subprocess.SubprocessError) as error:
            raise HeapyardError(
                f"Slurm takes no job: {_said(str(error))}", remedy="Put that right, then go on with heapyard resume."
            ) from None
        return [job.job_id for job in jobs]

    def jobs(self) -> dict[str, Job] | None:
        found = jobs_named([self._name])
        return None if found is None else {job.id: job for job in found[self._name]}

    def last_words(self, job: str) -> str:
        return last_line(self._room.jobs, job)

    def cancel(self, jobs: Collection[str]) -> None:
        if jobs:
            _run("scancel", *jobs)

    def _parameters(self, seconds: float, at_once: int, without: Collection[str]) -> dict[str, Any]:
        fleet = self._fleet
        given = {"partition": fleet.partition, "constraint": fleet.constraint, "account": fleet.account}
        return {
            **{name: value for name, value in given.items() if value},
            **({"exclude": ",".join(sorted(without))} if without else {}),
            "job_name": self._name,
            "time": _minutes(seconds),
            "nodes": 1,
            "exclusive": True,
            "array_parallelism": at_once,
            "signal_delay_s": SIGNAL_SECONDS,
            "wckey": None,
            "use_srun": False,  # srun would bind the agent to one processor of the node
            "additional_parameters": {"mem": 0, **{n: v or True for n, v in _further(fleet).items()}},
        }


def jobs_named(names: Collection[str]) -> dict[str, list[Job]] | None:
    """This user's jobs of these names that are queued or run; None when Slurm does not answer."""
    asked = ["squeue", "--noheader", "--array", f"--name={','.join(names)}", f"--format=%j|{_FORMAT}", f"--user={os.getuid()}"]
    done = _run(*asked)
    if done.returncode:
        return None
    found: dict[str, list[Job]] = {name: [] for name in names}
    for line in done.stdout.splitlines():
        name, job, state, node, began, queued, why = line.strip().split("|", 6)
        found[name].append(Job(job, state, node, began if node else queued, "" if node else why))
    return found


def require_slurm(fleet: Fleet) -> None:
    """UsageError in Slurm's own words where it takes no such job, before anything is stored. Queues nothing."""
    require_command()
    options = {"partition": fleet.partition, "constraint": fleet.constraint, "account": fleet.account, **_further(fleet)}
    words = [f"--{name}={value}" for name, value in options.items() if value]
    words += [f"--{name}" for name, value in _further(fleet).items() if not value]
    if fleet.time_limit:
        words.append(f"--time={_minutes(fleet.time_limit)}")
    done = _run("sbatch", "--test-only", "--exclusive", "--nodes=1", "--mem=0", *words, "--wrap=true")
    if done.returncode:
        raise UsageError(
            f"Slurm takes no such job: {_said(done.stderr)}",
            remedy="sinfo lists partitions, features and time limits; sacctmgr show assoc the accounts you may use.",
        )


def require_command() -> None:
    """UsageError where Slurm's commands are missing."""
    if shutil.which("sbatch") is None or shutil.which("squeue") is None:
        raise UsageError(
            "there is no Slurm here: sbatch and squeue are not in PATH",
            remedy="Run this on a login node of your cluster, or see how it works with: heapyard fleet try",
        )


def on_login_node() -> bool:
    """May this be a machine from which a cluster is used, and not one that computes?"""
    if shutil.which("sbatch") is None or "SLURM_JOB_ID" in os.environ:
        return False  # no Slurm, or a node that was given to us
    return "SLURM_CONF" in os.environ or any(Path(path).exists() for path in _CONFIGURED)  # packages alone are no cluster


def _further(fleet: Fleet) -> dict[str, str]:
    """The further options of sbatch, such as qos=long; those without a value have ""."""
    found = {}
    for text in fleet.sbatch:
        name, _, value = text.removeprefix("--").partition("=")
        found[name] = value
    return found


def _minutes(seconds: float) -> int:
    return max(int(-(-seconds // 60)), 1)


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(words, 1, "", str(error))


def _said(text: str) -> str:
    """Slurm's last complaint without the names of its programs."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "error" in line.lower()] or lines
    last = told[-1] if told else "it does not say why"
    for prefix in ("sbatch: error: ", "allocation failure: ", "sbatch: "):
        last = last.removeprefix(prefix)
    return last.rstrip(".")

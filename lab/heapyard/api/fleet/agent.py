# SPDX-License-Identifier: Apache-2.0
"""On a node: claims a block, runs it as the lab runs its own, and writes down each trial as it ends. Then the next one.

    python -I -m heapyard.api.fleet.agent FOLDER     # of one block, with its parcel

A block that was claimed before is refused, whoever starts the agent again.
"""

from __future__ import annotations

import errno
import math
import os
import platform
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ... import __version__
from ...model.errors import HeapyardError
from ...model.experiment import TrialOutcome
from ...store.locks import MachineLock
from ...store.returned import CLOSING, Closing, Ended, write_closing, write_trial
from ...execute.environment import snapshot
from ...execute.host_memory import readying
from ...execute.huge_pages import level_of, require
from ...execute.loop.errand import Errand, Stopped, cut_by_guard
from ...execute.loop.plan import WARM_UP
from ...execute.loop.runner import Launch, Runner
from ...execute.loop.signals import stop_on_signals
from ...execute.preflight import check
from ...execute.scattered_memory import move_together
from ...execute.scratch import ScratchFolder
from ...execute.trial import run_trial
from . import lease
from .dealing import candidates, count, groups_of, read_due
from .parcel import PARCEL, Parcel, read_parcel, read_standing
from .parts import fit
from .room import Room, around

SIGNAL_SECONDS = 30  # before a job's time limit, in which a block says that it was stopped
LINGER = 2.0  # seconds that a job waits for the blocks of the next stage: less than another job takes to start
LOOK = 0.1  # seconds between its looks meanwhile
LEAST_ROOM = 32 << 20  # bytes that the node's temporary folder must have free
_FULL = (errno.ENOSPC, errno.EDQUOT)
_OF_ENGINES = ("SLURM_", "SBATCH_", "SRUN_", "SUBMITIT_", "PMI_", "PMIX_")


def carry_out_block(folder: str, launch: Launch = run_trial) -> str:
    """Run the block whose parcel lies in `folder`; how it ended. HeapyardError when it cannot be claimed or read."""
    return _Agent(Path(folder), launch).run()


def work(folder: str, seconds: float, launch: Launch = run_trial) -> str:
    """What a job does: take block after block of the run that the one in `folder` belongs to, while there are any and time is
    left. How the last one ended, "" if there was none.

    A job begins its first block whatever that takes, another one only if it ends within `seconds` at the worst. HeapyardError
    when the shared folder cannot be read.
    """
    room, began, node = around(Path(folder)), time.monotonic(), node_name()
    groups = groups_of(node, snapshot())
    if os.environ.get("SLURM_RESTART_COUNT"):
        _close_earlier(room)
    ended, left = "", math.inf
    while (agent := _claimed_next(room, node, groups, left, launch, LINGER if ended else 0.0)) is not None:
        ended = agent.run_claimed()
        if ended not in ("done", "tripped", "released"):
            break  # what this node cannot run, another one may
        left = seconds - SIGNAL_SECONDS - (time.monotonic() - began)
    return ended


def node_name() -> str:
    """As Slurm calls this machine, else as it calls itself."""
    return os.environ.get("SLURMD_NODENAME") or platform.node().partition(".")[0]


def job_id() -> str:
    """Of the job that this process is, "" outside of one."""
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        return f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID', '')}"
    return os.environ.get("SLURM_JOB_ID") or os.environ.get("SUBMITIT_LOCAL_JOB_ID", "")


def _claimed_next(
    room: Room, node: str, groups: Sequence[str], seconds: float, launch: Launch, linger: float
) -> _Agent | None:
    """The next block, with its lease; None where there is none after `linger` seconds."""
    until = time.monotonic() + linger
    while True:
        try:
            for folder in candidates(room, groups, seconds):
                if lease.take(folder, node, job_id(), time.time(), groups):
                    agent = _Agent(folder, launch)
                    count(room, groups, agent.workload, agent.stage)
                    return agent
        except OSError as error:
            raise _unseen(room.due, node, error) from None
        if time.monotonic() >= until:
            return None
        time.sleep(LOOK)


def _close_earlier(room: Room) -> None:
    """Slurm has begun this job again, so the block that it held before is not run any more: said here, not found out later."""
    for block in read_due(room):
        folder = room.block(block.index)
        holder = lease.holder_of(folder)
        if holder is None or holder.job != job_id() or (folder / CLOSING).exists():
            continue
        done = tuple(sorted(int(path.stem.partition("-")[2]) for path in folder.glob("trial-*.json")))
        why = f"{holder.holder}: Slurm has begun the job again"
        write_closing(folder, Closing(read_parcel(folder).token, "stopped", holder.holder, why, positions=done))


def _unseen(path: Path, node: str, error: OSError) -> HeapyardError:
    return HeapyardError(
        f"{path.parent}: node {node} cannot read the block's parcel ({error.strerror})"
        if path.name == PARCEL
        else f"{path.parent}: node {node} cannot read what is to be run ({error.strerror})",
        remedy="--shared names a folder that every node sees under the same path.",
    )


class _Agent:
    def __init__(self, folder: Path, launch: Launch):
        self._folder, self._launch = folder, launch
        self._node, self._job = node_name(), job_id()
        try:
            self._parcel: Parcel = read_parcel(folder)
        except OSError as error:
            raise _unseen(folder / PARCEL, self._node, error) from None
        self._room = Room(Path(self._parcel.room))
        self._began = time.monotonic()
        self._warm_up = 0.0
        self._positions: list[int] = []
        self._events: list[tuple[str, str]] = []
        self._snapshot: dict[str, object] = {}
        self._begun: dict[int, float] = {}

    @property
    def workload(self) -> str:
        return self._parcel.errand.block.workload

    @property
    def stage(self) -> str:
        return self._parcel.errand.block.stage

    def run(self) -> str:
        if not lease.take(self._folder, self._node, self._job, time.time()):
            holder = lease.holder_of(self._folder)
            raise HeapyardError(
                f"block {self._parcel.errand.block.index} of {self._parcel.experiment} was claimed before by "
                f"{holder.holder if holder else 'somebody'}; it is not run again"
            )
        return self.run_claimed()

    def run_claimed(self) -> str:
        """The block, whose lease we have; how it ended."""
        ended: Ended
        try:
            with _stopping() as stop, _without_engine():
                ended, reason = self._claimed(stop)
        except (Stopped, KeyboardInterrupt):
            ended, reason = "stopped", f"{self._node}: the job was ended by a signal"
        except HeapyardError as error:
            ended, reason = "refused", " ".join(filter(None, (_sentence(error.message), error.remedy)))
        except OSError as error:
            if error.errno not in _FULL:
                raise
            ended, reason = "full", f"{self._node}: there is no room left ({error.filename or self._folder}: {error.strerror})"
        write_closing(self._folder, self._closing(ended, reason))
        return ended

    def _claimed(self, stop: threading.Event) -> tuple[Ended, str]:
        parcel = self._parcel
        errand = self._still_wanted(parcel.errand)
        if errand is None:
            return "released", "none of it is wanted any more"
        if shutil.disk_usage(tempfile.gettempdir()).free < LEAST_ROOM:
            return "full", f"{self._node}: the temporary folder {tempfile.gettempdir()} has no room left"
        lock = MachineLock()
        lock.acquire(f"{parcel.title}, block {errand.block.index}", wait=True)
        try:
            with ScratchFolder() as here:
                errand, told = fit(errand, parcel.parts, self._room.parts, here, self._node)
                return self._measure(errand, told, stop)
        finally:
            lock.release()

    def _measure(self, errand: Errand, told: list[str], stop: threading.Event) -> tuple[Ended, str]:
        settings = errand.settings
        require({level_of(t) for t in errand.treatments}, change_system=settings.change_system)
        if self._launch is run_trial:
            check(errand.treatments, settings)
        move_together()
        self._snapshot = {**snapshot(), **self._differences(told)}
        runner = Runner(self._launch, stop, make_ready=readying())
        self._warm(errand, runner)
        tripped = cut_by_guard(errand, runner.outcomes(errand, self), lambda kind, text: None)
        return ("tripped" if tripped else "done"), ""

    def _differences(self, told: list[str]) -> dict[str, object]:
        """What of this node is unlike the machine that the experiment began on, in words."""
        libc = " ".join(platform.libc_ver())
        if libc != self._parcel.libc:
            told = [*told, f"the C library is {libc or 'unknown'}, not {self._parcel.libc}"]
        if __version__ != self._parcel.version:
            told = [*told, f"Heapyard is {__version__}, not {self._parcel.version}"]
        return {"differs": told} if told else {}

    def _still_wanted(self, errand: Errand) -> Errand | None:
        """Without treatments that the controller has dropped since it gave the block out."""
        standing, block = read_standing(self._room), errand.block
        if block.workload in standing.abandoned:
            return None
        kept = tuple(p for p in errand.positions if (block.workload, block.order[p]) not in standing.dropped)
        return replace(errand, positions=kept)

    def _warm(self, errand: Errand, runner: Runner) -> None:
        """The node's first launch of a workload reads its files from the disk: one launch of the baseline is not counted."""
        mark = self._room.warm(self._node, errand.block.workload)
        if self._parcel.warm_up and errand.block.stage != WARM_UP and not mark.exists():
            begin, baseline = time.monotonic(), errand.block.order.index(errand.settings.baseline)
            if runner.launch(errand, baseline).status == "interrupted":
                raise Stopped
            self._warm_up = time.monotonic() - begin
        mark.parent.mkdir(exist_ok=True)
        mark.touch()

    # --- loop.runner.Recorder

    def begin(self, positions: Sequence[int]) -> None:
        self._begun |= dict.fromkeys(positions, time.monotonic() - self._began)

    def end(self, position: int, outcome: TrialOutcome, seconds: Callable[[], float]) -> None:
        if outcome.status != "interrupted":
            write_trial(self._folder, position, self._begun[position], seconds(), outcome)
            self._positions.append(position)

    def event(self, kind: str, text: str) -> None:
        self._events.append((kind, text))

    def _closing(self, ended: Ended, reason: str) -> Closing:
        return Closing(
            token=self._parcel.token,
            ended=ended,
            node=self._node,
            reason=reason,
            seconds=time.monotonic() - self._began,
            warm_up=self._warm_up,
            positions=tuple(sorted(self._positions)),
            events=tuple(self._events),
            snapshot=self._snapshot or snapshot(),
        )


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that the signals of a person and of Slurm set: cancelled, out of time, preempted."""
    with stop_on_signals() as stop:
        if threading.current_thread() is not threading.main_thread():
            yield stop
            return
        before = signal.signal(signal.SIGUSR2, lambda number, frame: stop.set())
        try:
            yield stop
        finally:
            signal.signal(signal.SIGUSR2, before)


@contextmanager
def _without_engine() -> Iterator[None]:
    """Programs that inherit our environment must not find the engine's variables in it: they take room on the stack."""
    before = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(_OF_ENGINES)}
    try:
        yield
    finally:
        os.environ.update(before)


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def main() -> None:
    try:
        print(carry_out_block(sys.argv[1]))
    except HeapyardError as error:
        sys.exit(f"heapyard: {error.message}" + (f"\n  {error.remedy}" if error.remedy else ""))


if __name__ == "__main__":
    main()

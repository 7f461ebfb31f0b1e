# SPDX-License-Identifier: Apache-2.0
"""The whole run: every allocator's server under its load until the time is over, side by side or by turns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ...model.allocator import Allocator
from ...model.errors import HeapyardError
from ...model.hours import IN_TURNS, Noted
from ...model.units import format_bytes, format_duration
from ..host_memory import free_bytes
from ..machine.files import Files
from .launching import Conditions
from .notebook import Notebook, read_notebook
from .sharing import Taken, decide, has_room
from .stand import Stand

NOTES = "notes.jsonl"  # the record, in the run's folder
SLICE = 300.0  # seconds of a turn
TURNS = 6  # that each server has at least
LOOK = 10.0  # seconds in which a server runs alone, to see what it takes
OVERTIME = 3.0  # times a turn that a pass of the load may take before it is stopped with its server
LOW = 0.05  # of the machine's memory: with less left the kernel would soon end somebody
_TICK = 0.05  # seconds between looks at the loads
_LOOK_AT_MEMORY = 5.0

Say = Callable[[str], None]


def silent() -> None:
    """What is done each period, if nothing is."""


class Campaign:
    """`seconds`: of the whole run, earlier commands included. `mode`: "" lets what the servers take decide."""

    def __init__(
        self, allocators: Sequence[Allocator], conditions: Conditions, seconds: float, mode: str = "", slice_: float = 0.0
    ):
        self._is, self._seconds, self._forced = conditions, seconds, mode
        self._path = conditions.home / NOTES
        known = read_notebook(self._path)
        self._mode = mode or (known.mode if len(allocators) > 1 else "")
        self._why = known.why
        self._notebook = Notebook(self._path)
        self.stands = [Stand(a, conditions, self._notebook, known.servers.get(a.name, Noted(a.name))) for a in allocators]
        share = seconds / len(allocators)
        self._slice = slice_ or min(SLICE, share / TURNS)
        self._look = min(LOOK, share / TURNS)
        self._files = Files(Path("/"))
        self._looked = 0.0
        self._ended = ""  # why all of it ends before its time

    def run(self, say: Say, note: Say, each_period: Callable[[], None] = silent, period: float = 0.0) -> None:
        """Until the time is over, or `stop` is set. What was noted is kept whatever happens; then all servers have ended.

        HeapyardError if a server cannot be started at the beginning, or all are given up.
        """
        self._say, self._note, self._each, self._period = say, note, each_period, period
        self._due = period
        self._notebook.write("command", seconds=self._seconds)
        done = False
        try:
            self._begin()
            if len(self.stands) > 1:
                self._choose()
            if self._mode == IN_TURNS:
                self._in_turns()
            else:
                self._drive(self._left(), lambda: not self._left())
            if all(stand.failed and not stand.passes for stand in self.stands):
                raise HeapyardError(f"{self.stands[0].name}: {self.stands[0].failed}")
            done = not (self._is.stop.is_set() or self._ended or any(stand.failed for stand in self.stands))
        except KeyboardInterrupt:
            self._is.stop.set()
        except OSError as error:
            self._ended = f"ended before its time: {error.filename or self._path}: {error.strerror}"
        finally:
            self._finish(done)
        if self._ended:
            note(self._ended)

    def _finish(self, done: bool) -> None:
        """All servers end, though nothing more can be noted, as on a full disk."""
        for stand in self.stands:
            self._say(f"ending the server under {stand.name}")
            try:
                stand.finish()
            except OSError as error:
                self._ended = f"ended before its time: {error.filename or self._path}: {error.strerror}"
        if done:
            self._notebook.write("complete")
        self._notebook.close()

    @property
    def _target(self) -> float:
        return self._seconds / len(self.stands) if self._mode == IN_TURNS else self._seconds

    def _left(self) -> list[Stand]:
        return [stand for stand in self.stands if not stand.failed and stand.at < self._target]

    def _begin(self) -> None:
        for stand in self.stands:
            if self._is.stop.is_set():
                raise KeyboardInterrupt
            if self._mode and stand.at >= self._target:
                continue  # an earlier command was done with it
            self._say(f"starting the server under {stand.name}")
            if told := stand.begin():
                self._note(told)

    # Side by side or not ---------------------------------------------------------------------------------------------------

    def _choose(self) -> None:
        """Each server runs alone for a while, unless it is decided already."""
        if self._forced:
            self._mode, self._why = self._forced, "you chose it"
            self._notebook.write("mode", mode=self._mode, why=self._why)
        if self._mode:
            return
        taken = []
        for stand in self.stands:
            began, cpu = stand.at, stand.cpu
            self._turn(stand, self._look)
            taken.append(Taken((stand.cpu - cpu) / max(stand.at - began, 0.001), stand.rss))
        free = free_bytes(self._files)
        if lacking := has_room(taken, free):
            raise HeapyardError(lacking, remedy="Name fewer allocators, or one after the other.")
        self._mode, self._why = decide(taken, len(os.sched_getaffinity(0)), free)
        self._notebook.write("mode", mode=self._mode, why=self._why)
        self._note(f"{self._mode}: {self._why}")

    def _in_turns(self) -> None:
        while (left := self._left()) and not self._is_over():
            self._turn(min(left, key=lambda stand: stand.at), self._slice)

    def _turn(self, stand: Stand, seconds: float) -> None:
        """A turn ends with a pass of the load; a pass that takes too long is stopped with its server."""
        begin = stand.at

        def over() -> bool:
            ran, past = stand.at - begin, stand.at - self._seconds / len(self.stands)
            stand.winds_down = ran >= seconds or past >= 0
            return bool(stand.failed) or (stand.winds_down and (stand.rests or ran >= OVERTIME * seconds or past >= seconds))

        self._drive([stand], over)

    def _drive(self, stands: Sequence[Stand], over: Callable[[], bool]) -> None:
        """These run until `over`; then they stand still."""
        for stand in stands:
            if not stand.failed:
                stand.go()
        told = 0.0
        while not self._is_over() and not over():
            for stand in stands:
                if not stand.failed:
                    stand.tick()
            if (now := time.monotonic()) - told >= 1.0:
                told = now
                self._say(self._where(stands))
            if self._period and min(stand.at for stand in self.stands if not stand.failed or stand is stands[0]) >= self._due:
                self._due += self._period
                self._each()
            self._is.stop.wait(_TICK)
        for stand in stands:
            if not stand.failed and not self._is.stop.is_set():
                stand.stand_still()

    def _is_over(self) -> bool:
        now = time.monotonic()
        if now - self._looked > _LOOK_AT_MEMORY:
            self._looked = now
            total, free = 1024 * self._files.table("proc/meminfo").get("MemTotal", 0), free_bytes(self._files)
            if free < LOW * total:
                self._ended = f"ended before its time: only {format_bytes(free)} of {format_bytes(total)} of memory is left"
        return self._is.stop.is_set() or bool(self._ended)

    def _where(self, running: Sequence[Stand]) -> str:
        there = [stand for stand in self.stands if not stand.failed]
        done, whole = sum(s.at for s in there), self._target * len(there)
        left = max(whole - done, 0.0) / (1 if self._mode == IN_TURNS or len(running) == 1 else len(there))
        memory = ", ".join(f"{s.name} {format_bytes(s.rss)}" for s in there if s.rss)
        return f"{memory}; {sum(s.passes for s in there)} passes; about {format_duration(left)} left"

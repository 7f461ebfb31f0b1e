# SPDX-License-Identifier: Apache-2.0
"""The load of one server, over and over: one pass after another, stopped and going on with its server."""

from __future__ import annotations

from ...model.program import Program
from ..launcher import Running
from ..server.load import Run, helpers, run_of
from ..server.work import work_below
from ..trial_environment import Scene
from .standstill import hold, let_go


class Loads:
    """The load generators of a pass, which run at the same time. `began`: when, as the stand counts."""

    def __init__(self, program: Program):
        self._program = program
        self._running: list[Running] = []
        self._spent = 0.0
        self.began = 0.0
        self.were_held = False  # so that what they timed has a standstill in it

    @property
    def rest(self) -> bool:
        """Does none run?"""
        return not self._running

    @property
    def cpu(self) -> float:
        """Seconds of processor time of all passes."""
        return self._spent + sum(work_below(load.process.pid).cpu for load in self._running)

    def begin(self, scene: Scene, at: float) -> None:
        server = self._program.server
        assert server is not None and self.rest
        self.began, self.were_held = at, False
        lines = [server.client, *server.more_clients]
        self._running = [Running(launch) for launch in helpers("load", lines, self._program, scene, 0.0)]

    def hold(self) -> None:
        for load in self._running:
            hold(load.process.pid)
            self.were_held = True

    def let_go(self) -> None:
        for load in self._running:
            let_go(load.process.pid)

    def taken(self) -> list[Run]:
        """What became of a pass once it has ended; nothing before."""
        if not self._running or not all(load.wait(0) for load in self._running):
            return []
        runs = [run_of(load, 0.0) for load in self._running]
        self._running = []
        self._spent += sum(run.cpu for run in runs)
        return runs

    def end(self) -> None:
        """Ends a pass before its time; it leaves nothing."""
        running, self._running = self._running, []
        for load in running:
            let_go(load.process.pid)
            load.end()
            load.result()

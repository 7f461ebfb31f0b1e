# SPDX-License-Identifier: Apache-2.0
"""One allocator's server, its load, and what is noted of both; it runs, stands still, and runs on."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from ...model.allocator import Allocator
from ...model.errors import HeapyardError
from ...model.experiment import Settings
from ...model.hours import Noted
from ...model.units import format_duration
from ..server.life import STOP_SECONDS
from ..server.load import Run, responses_of, run_at_once
from ..server.work import work_below
from .kept import how_it_ended
from .launching import Conditions, EndedAtOnce, Launched, find, start
from .loads import Loads
from .memory import memory_below
from .notebook import Notebook

RESTARTS = 5  # of a server that dies, in one command; a sixth death is no accident
FAILURES = 3  # of the load in a row
LEAST_PASS = 0.1  # seconds; a shorter load is mostly its own start
MOST_OUTPUT = 64 << 20  # bytes of what the server writes that are kept; hours of a log would fill the disk
_PAUSE = 1.0  # seconds after a load that failed


class Stand:
    """`at`: seconds it has been under load so far. It is given up once `failed` says why."""

    def __init__(self, allocator: Allocator, conditions: Conditions, notebook: Notebook, known: Noted):
        """`known`: what earlier commands noted."""
        self.name, self._allocator, self._is = allocator.name, allocator, conditions
        self._notebook, self._folder = notebook, conditions.home / allocator.name.replace("/", "_")
        self._server: Launched | None = None
        self._loads = Loads(conditions.program)
        self._before = known.seconds
        self._since: float | None = None  # while it runs
        self._stretch = len(known.stretches)
        self._was_ended = not known.stretches or bool(known.stretches[-1].ended)
        self._next_sample = self._not_before = 0.0
        self._restarts = self._failures = 0
        self.passes = len(known.passes)
        self.rss = 0
        self.winds_down = False
        self.failed = ""

    # What it is asked -----------------------------------------------------------------------------------------------------

    @property
    def at(self) -> float:
        return self._before + (time.monotonic() - self._since if self._since is not None else 0.0)

    @property
    def rests(self) -> bool:
        """Does no load run?"""
        return self._loads.rest

    @property
    def cpu(self) -> float:
        """Seconds of processor time of the server and its load, in this command."""
        return self._loads.cpu + (work_below(self._server.kept.keeper).cpu if self._server else 0.0)

    # What it is told ------------------------------------------------------------------------------------------------------

    def begin(self) -> str:
        """Finds the server of an earlier command, or starts one; what it did, in a sentence. It then stands still.

        HeapyardError if it cannot be started, does not get ready, or the library does not serve it.
        """
        last = max((int(path.name.removeprefix("launch")) for path in self._folder.glob("launch*")), default=0)
        before = self._folder / f"launch{last}"
        if last and (found := find(self._allocator, self._is, before)):
            self._begin_stretch(found, fresh=False)
            return f"{self.name}: the server still runs, as process {found.kept.pid}; the run goes on with it"
        lost = ""
        if not self._was_ended:  # it ended while nobody looked
            lost = how_it_ended(before)
            shutil.rmtree(before / "dir", ignore_errors=True)
            self._write("end", why=lost)
        try:
            server = start(self._allocator, self._is, self._folder / f"launch{last + 1}")
        except EndedAtOnce:
            server = start(self._allocator, self._is, self._folder / f"launch{last + 2}")
        self._begin_stretch(server, fresh=True)
        if not last:
            return ""
        return f"{self.name}: the server is started anew" + (f", since the earlier one ended {lost}" if lost else "")

    def go(self) -> None:
        """Server and load run on."""
        self._there.kept.let_go()
        self._loads.let_go()
        self._since, self.winds_down, self._next_sample = time.monotonic(), False, 0.0

    def stand_still(self) -> None:
        """Server and load are stopped where they are."""
        self._sample()
        self._pause()
        self._loads.hold()
        if not self._there.kept.hold():
            self._note("a process of the server may not be stopped, so it runs on while others have their turn")

    def tick(self) -> None:
        """Whatever is due: a sample, the end of a pass, the next one, the end of the server."""
        if self._there.kept.wait(0):
            self._died()
            return
        now = time.monotonic()
        if now >= self._next_sample:
            self._sample()
            self._next_sample = now + self._is.interval
        if runs := self._loads.taken():
            self._pass_ended(runs)
        if self._loads.rest and not (self.winds_down or self.failed) and now >= self._not_before:
            self._loads.begin(self._there.scene, self.at)

    def finish(self) -> None:
        """The load ends, then the server, as the user says. Whatever cannot be noted any more, the server ends."""
        if self._server is None:
            return
        self._server.kept.let_go()
        try:
            if self._since is not None:
                self._sample()
                self._pause()
            self._loads.end()
        finally:
            why = self._ask_to_end()
            self._server.kept.close()
        if why:
            self._note(f"the server was {why}")
        self._end_stretch(why or "as it was asked to")

    # Its parts ------------------------------------------------------------------------------------------------------------

    @property
    def _there(self) -> Launched:
        assert self._server is not None
        return self._server

    def _pause(self) -> None:
        self._before, self._since = self.at, None

    def _begin_stretch(self, server: Launched, *, fresh: bool) -> None:
        self._server, self._was_ended = server, False
        self._stretch += 1
        self._write("begin", fresh=fresh, pid=server.kept.pid, traces=server.traces)

    def _end_stretch(self, why: str) -> None:
        server, self._server, self._was_ended = self._there, None, True
        server.end_profile()
        shutil.rmtree(server.scene.dir, ignore_errors=True)  # copies of a large --state would pile up
        self._write("end", why=why)

    def _sample(self) -> None:
        kept = self._there.kept
        found = memory_below(kept.keeper)
        if not found.processes:
            return  # it has just ended
        self.rss = found.rss
        numbers = [found.rss, found.anonymous, found.peak, found.processes]
        self._write("sample", m=numbers, cpu=round(work_below(kept.keeper).cpu, 2))
        for path in (kept.launch.stdout, kept.launch.stderr):
            _shorten(path)

    def _pass_ended(self, runs: Sequence[Run]) -> None:
        if self._there.kept.wait(0):
            return  # the next tick tells why
        why = next((run.failed for run in runs if run.failed), "")
        if not why and runs[0].wall < LEAST_PASS:
            self._fail(f"the load ended after {format_duration(runs[0].wall)}; it must last {LEAST_PASS:g} s at least")
            return
        metrics: dict[str, float] = {}
        if not why:
            responses, why = responses_of(self._is.program, runs)
            metrics = responses.metrics or {"pass_time": runs[0].wall}
        if why:
            self._failures += 1
            self._not_before = time.monotonic() + _PAUSE
            self._note(f"the load {why}")
            if self._failures >= FAILURES:
                self._fail(f"the load {why}; {FAILURES} times in a row")
            return
        self._failures = 0
        self.passes += 1
        # What was timed over a standstill says nothing.
        self._write("pass", metrics={} if self._loads.were_held else metrics, **{"from": round(self._loads.began, 3)})

    def _died(self) -> None:
        self._pause()
        self._loads.end()
        said, ended = self._there.last_line(), self._there.kept.close()
        how = f"{ended}{f'; it said: {said}' if said else ''}"
        self._end_stretch(how)
        told = f"the server ended {how}"
        while self._restarts < RESTARTS:
            self._restarts += 1
            self._note(f"{told}; it is started anew")
            try:
                self.begin()
            except HeapyardError as error:
                told = error.message
                self._is.stop.wait(_PAUSE)
                continue
            self.go()
            return
        self._fail(f"{told}, after {RESTARTS} starts more")

    def _ask_to_end(self) -> str:
        """"" or what went wrong."""
        kept, plan = self._there.kept, self._is.program.server
        assert plan is not None
        if plan.stop:
            run_at_once("stop", [plan.stop], self._is.program, self._there.scene, Settings(), STOP_SECONDS, None)
        else:
            kept.signal(signal.Signals[plan.stop_signal])
        if kept.wait(STOP_SECONDS):
            return ""
        kept.kill()
        return f"killed: it still ran {STOP_SECONDS:g} s after it was asked to end"

    def _fail(self, why: str) -> None:
        self.finish()
        self.failed = why
        self._write("failed", why=why)

    def _note(self, text: str) -> None:
        self._write("note", text=text)

    def _write(self, kind: str, **fields: object) -> None:
        self._notebook.write(kind, self.name, s=self._stretch, at=round(self.at, 3), **fields)


def _shorten(path: Path) -> None:
    """Empties a file that has grown too long; it is open for appending, so the server writes on at its beginning."""
    if path.exists() and path.stat().st_size > MOST_OUTPUT:
        os.truncate(path, 0)

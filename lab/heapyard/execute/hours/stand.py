# SPDX-License-Identifier: Apache-2.0
"""One allocator's server, its load, and what is noted of both; it runs, is held still, and runs on."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from ...catalog.own_heaps import samples_itself
from ...model.allocator import Allocator
from ...model.errors import HeapyardError
from ...model.experiment import Settings, Treatment
from ...model.hours import Noted
from ...model.program import Program, Server
from ...model.units import format_duration
from ..collector import Collector, Plan
from ..launcher import Launch, Running
from ..server.life import STOP_SECONDS
from ..server.load import helpers, responses_of, run_at_once, run_of
from ..server.ready import wait_until_ready
from ..server.work import work_below
from ..trial import prepare_launch
from ..trial_environment import Scene, set_scene
from ..witness import objection, read_testimonies
from .kept import PATIENCE, Kept, how_it_ended
from .memory import memory_below
from .notebook import Notebook
from .standstill import hold, let_go

RESTARTS = 5  # of a server that dies, in one command; a sixth death is no accident
FAILURES = 3  # of the load in a row
LEAST_PASS = 0.1  # seconds; a shorter load is mostly its own start
MOST_OUTPUT = 64 << 20  # bytes of what the server writes that are kept; hours of a log would fill the disk
_PAUSE = 1.0  # seconds after a load that failed
_ENOUGH = 4096  # bytes at the end of what it wrote, for its last line
_WARM_UP = 3600.0  # seconds that a warm-up may take


@dataclass(frozen=True, slots=True)
class Conditions:
    """Of all servers of a run. `interval`: seconds between samples; `home`: the folder that is locked meanwhile."""

    program: Program
    home: Path
    interval: float
    profile: bool
    stop: threading.Event
    patience: float = PATIENCE


class Stand:
    """`at` seconds it has been under load so far. It is given up when `failed` says why."""

    def __init__(self, allocator: Allocator, conditions: Conditions, notebook: Notebook, known: Noted):
        self.name, self._allocator, self._is = allocator.name, allocator, conditions
        self._notebook, self._folder = notebook, conditions.home / allocator.name.replace("/", "_")
        self._kept: Kept | None = None
        self._scene: Scene | None = None
        self._collector: Collector | None = None
        self._loads: list[Running] = []
        self._loads_began = 0.0  # as `at`
        self._loads_were_held = False
        self._before = known.seconds
        self._since: float | None = None  # while it runs
        self._stretch = len(known.stretches)
        self._was_ended = not known.stretches or bool(known.stretches[-1].ended)
        self._next_sample = self._not_before = 0.0
        self._restarts = self._failures = 0
        self._load_cpu = 0.0
        self.passes = len(known.passes)
        self.rss = 0
        self.winds_down = False
        self.failed = self.ended = ""

    # What it is asked -----------------------------------------------------------------------------------------------------

    @property
    def at(self) -> float:
        return self._before + (time.monotonic() - self._since if self._since is not None else 0.0)

    @property
    def rests(self) -> bool:
        """Does no load run?"""
        return not self._loads

    @property
    def cpu(self) -> float:
        """Seconds of processor time of the server and its load, in this command."""
        server = work_below(self._kept.keeper).cpu if self._kept else 0.0
        return server + self._load_cpu + sum(work_below(load.process.pid).cpu for load in self._loads)

    # What it is told ------------------------------------------------------------------------------------------------------

    def begin(self) -> str:
        """Finds the server of an earlier command, or starts one; what it did, in a sentence. It then stands still.

        HeapyardError if it cannot be started, does not get ready, or the library does not serve it.
        """
        last = max((int(path.name.removeprefix("launch")) for path in self._folder.glob("launch*")), default=0)
        if last and self._find(self._folder / f"launch{last}"):
            self._begin_stretch(fresh=False)
            return f"{self.name}: the server still runs, as process {self._kept_one.pid}; the run goes on with it"
        lost = ""
        if last and not self._was_ended:  # while nobody looked
            lost = how_it_ended(self._folder / f"launch{last}")
            self._note_line("end", why=lost)
        self._start(self._folder / f"launch{last + 1}")
        if not last:
            return ""
        return f"{self.name}: the server is started anew" + (f", since the earlier one ended {lost}" if lost else "")

    def go(self) -> None:
        """Server and load run on."""
        self._kept_one.let_go()
        for load in self._loads:
            let_go(load.process.pid)
        self._since, self.winds_down = time.monotonic(), False
        self._next_sample = 0.0

    def stand_still(self) -> None:
        """Server and load are stopped where they are."""
        self._sample()
        self._before, self._since = self.at, None
        for load in self._loads:
            hold(load.process.pid)
            self._loads_were_held = True
        if not self._kept_one.hold():
            self._note("a process of the server may not be stopped, so it runs on while others have their turn")

    def tick(self) -> None:
        """Whatever is due: a sample, the end of a pass, the next one, the end of the server."""
        if self._kept_one.wait(0):
            self._died()
            return
        now = time.monotonic()
        if now >= self._next_sample:
            self._sample()
            self._next_sample = now + self._is.interval
        if self._loads and all(load.wait(0) for load in self._loads):
            self._pass_ended()
        if not (self._loads or self.winds_down or self.failed) and now >= self._not_before:
            self._loads_began, self._loads_were_held = self.at, False
            server = self._server
            lines = [server.client, *server.more_clients]
            self._loads = [Running(launch) for launch in helpers("load", lines, self._is.program, self._scene_one, 0.0)]

    def finish(self) -> None:
        """The load ends, then the server, as it was asked to be stopped."""
        if self._kept is None:
            return
        self._kept.let_go()
        try:
            if self._since is not None:
                self._sample()
                self._before, self._since = self.at, None
            self._end_loads()
        finally:
            why = self._ask_to_end()
        if why:
            self._note(f"the server was {why}")
        self._close(why or "as it was asked to")

    # Its parts ------------------------------------------------------------------------------------------------------------

    @property
    def _kept_one(self) -> Kept:
        assert self._kept is not None
        return self._kept

    @property
    def _scene_one(self) -> Scene:
        assert self._scene is not None
        return self._scene

    @property
    def _server(self) -> Server:
        assert self._is.program.server is not None
        return self._is.program.server

    def _find(self, folder: Path) -> bool:
        try:
            scene = Scene(folder / "dir", folder / "lab", int((folder / "port").read_text()))
        except (OSError, ValueError):
            return False
        found = Kept.find(self._launch(scene), folder)
        if found is None:
            return False
        self._kept, self._scene = found, scene
        found.hold()
        return True

    def _start(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        scene = self._scene = set_scene(folder, self._is.program)
        (folder / "port").write_text(str(scene.port))
        if self._is.profile:
            within = samples_itself(self._allocator.library)
            self._collector = Collector(folder / "traces", Plan(self._is.program.command, told_by_heap=within))
            Running.at_work.add(self._collector.pid)
        launch = self._launch(scene)
        under = f"{self._is.program.name} under {self.name}"
        try:
            self._kept = Kept.start(launch, folder, self._is.home, self._is.patience)
            why = wait_until_ready(self._is.program, self._kept, scene, self._is.stop)
            if not why:
                why = self._proof(launch, scene)
            if not why and self._server.warm_up:
                (warm,) = run_at_once("warm_up", [self._server.warm_up], self._is.program, scene, Settings(), _WARM_UP,
                                      self._is.stop, self._kept)
                why = f"was not warmed up: the warm-up {warm.failed}" if warm.failed else ""
        except HeapyardError as error:
            self._abandon()
            raise HeapyardError(f"{under}: {error.message}", remedy=error.remedy) from None
        except BaseException:
            self._abandon()
            raise
        if why and self._is.stop.is_set():
            self._abandon()
            raise KeyboardInterrupt
        if why:
            said = _last_line(launch)
            how = self._abandon()
            raise HeapyardError(f"{under}: the server {why}{f', {how}' if how else ''}{f'; it said: {said}' if said else ''}")
        self._kept.hold()
        self._begin_stretch(fresh=True, traces=str(folder / "traces") if self._is.profile else "")

    def _launch(self, scene: Scene) -> Launch:
        treatment = Treatment(self.name, self._allocator)
        return prepare_launch(self._is.program, treatment, Settings(), scene, pad=0, collector=self._collector)

    def _proof(self, launch: Launch, scene: Scene) -> str:
        """What speaks against the library's having served the server, to follow "the server"; "" if nothing does."""
        errors = launch.stderr.read_text(errors="replace") if launch.stderr.exists() else ""
        why = objection(read_testimonies(scene.lab / "witness"), (), self._kept_one.pid, self._allocator, errors)
        return f"is not served by the library: {why}" if why else ""

    def _begin_stretch(self, *, fresh: bool, traces: str = "") -> None:
        self._stretch += 1
        self._was_ended = False
        self._note_line("begin", fresh=fresh, pid=self._kept_one.pid, traces=traces)
        self._load_cpu = 0.0

    def _sample(self) -> None:
        keeper = self._kept_one.keeper
        found = memory_below(keeper)
        if not found.processes:
            return  # it has just ended
        self.rss = found.rss
        for path in (self._kept_one.launch.stdout, self._kept_one.launch.stderr):
            if path.stat().st_size > MOST_OUTPUT:
                os.truncate(path, 0)  # it is open for appending, so the server writes on at the beginning
        numbers = [found.rss, found.anonymous, found.peak, found.processes]
        self._note_line("sample", m=numbers, cpu=round(work_below(keeper).cpu, 2))

    def _pass_ended(self) -> None:
        runs = [run_of(load, 0.0) for load in self._loads]
        self._loads = []
        self._load_cpu += sum(run.cpu for run in runs)
        why = next((run.failed for run in runs if run.failed), "")
        if self._kept_one.wait(0):
            return  # the next tick tells why
        if not why and runs[0].wall < LEAST_PASS:
            self._fail(f"the load ended after {format_duration(runs[0].wall)}; it must last {LEAST_PASS:g} s at least")
            return
        responses, missing = (None, "") if why else responses_of(self._is.program, runs)
        if why or missing:
            self._failures += 1
            self._not_before = time.monotonic() + _PAUSE
            told = f"the load {why or missing}"
            self._note(told)
            if self._failures >= FAILURES:
                self._fail(f"{told}; {FAILURES} times in a row")
            return
        self._failures = 0
        self.passes += 1
        assert responses is not None
        known = {} if responses.metrics else {"pass_time": runs[0].wall}
        metrics = {} if self._loads_were_held else {**responses.metrics, **known}  # what it timed has the standstill in it
        self._note_line("pass", metrics=metrics, **{"from": round(self._loads_began, 3)})

    def _died(self) -> None:
        assert self._kept is not None
        self._before, self._since = self.at, None
        self._end_loads()
        said = _last_line(self._kept.launch)
        self._close(f"{self._kept.close()}{f'; it said: {said}' if said else ''}", closed=True)
        self._restarts += 1
        if self._restarts > RESTARTS:
            self._fail(f"the server ended {self._restarts} times, the last time {self.ended}")
            return
        self._note(f"the server ended {self.ended}; it is started anew")
        try:
            self.begin()
        except HeapyardError as error:
            self._fail(error.message)
            return
        self.go()

    def _end_loads(self) -> None:
        for load in self._loads:
            let_go(load.process.pid)
            load.end()
            load.result()
        self._loads = []

    def _ask_to_end(self) -> str:
        """"" or what went wrong."""
        kept = self._kept_one
        if self._server.stop:
            run_at_once("stop", [self._server.stop], self._is.program, self._scene_one, Settings(), STOP_SECONDS, None)
        else:
            kept.signal(signal.Signals[self._server.stop_signal])
        if kept.wait(STOP_SECONDS):
            return ""
        kept.kill()
        return f"killed: it still ran {STOP_SECONDS:g} s after it was asked to end"

    def _close(self, why: str, *, closed: bool = False) -> None:
        if self._kept is not None and not closed:
            self._kept.close()
        self._kept, self.ended, self._was_ended = None, why, True
        self._note_line("end", why=why)
        self._end_collector()

    def _abandon(self) -> str:
        """Ends a server that never got ready; how it ended, if it did by itself."""
        how = ""
        if self._kept is not None:
            by_itself = self._kept.wait(0)
            self._kept.kill()
            told = self._kept.close()
            how = told if by_itself else ""
        self._kept = None
        self._end_collector()
        return how

    def _end_collector(self) -> None:
        if self._collector is not None:
            Running.at_work.discard(self._collector.pid)
            self._collector.stop()
            self._collector = None

    def _fail(self, why: str) -> None:
        self.finish()
        self.failed = why
        self._note_line("failed", why=why)

    def _note(self, text: str) -> None:
        self._note_line("note", text=text)

    def _note_line(self, kind: str, **fields: object) -> None:
        self._notebook.write(kind, self.name, s=self._stretch, at=round(self.at, 3), **fields)


def _last_line(launch: Launch) -> str:
    for path in (launch.stderr, launch.stdout):
        if path.exists():
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _ENOUGH))
                lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
            if lines:
                return lines[-1][:200]
    return ""

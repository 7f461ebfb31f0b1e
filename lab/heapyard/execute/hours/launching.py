# SPDX-License-Identifier: Apache-2.0
"""Starting a server for hours: ready, served by the library, warm; or finding the one of an earlier command."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from ...catalog.own_heaps import samples_itself
from ...model.allocator import Allocator
from ...model.errors import HeapyardError
from ...model.experiment import Settings, Treatment
from ...model.program import Program
from ..collector import Collector, Plan
from ..launcher import Launch, Running
from ..server.load import run_at_once
from ..server.ready import wait_until_ready
from ..server.work import below
from ..trial import prepare_launch
from ..trial_environment import Scene, set_scene
from ..witness import LOADED_AFTER, objection, read_testimonies
from .kept import PATIENCE, Kept

_PORT = "port"  # the file that keeps it for the next command
_ENOUGH = 4096  # bytes at the end of what a server wrote, for its last line
_LOADS = 1.0  # seconds in which a process has surely loaded its libraries
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


class EndedAtOnce(HeapyardError):
    """The server ended by itself before it was ready."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A server that stands still. `traces`: the folder of its profile, "" without one; `collector`: None of one that was found."""

    kept: Kept
    scene: Scene
    traces: str = ""
    collector: Collector | None = None

    def end_profile(self) -> None:
        if self.collector is not None:
            Running.at_work.discard(self.collector.pid)
            self.collector.stop()

    def last_line(self) -> str:
        """Of what the server wrote, errors first; "" if it wrote nothing."""
        for path in (self.kept.launch.stderr, self.kept.launch.stdout):
            if path.exists():
                with path.open("rb") as file:
                    file.seek(max(0, os.fstat(file.fileno()).st_size - _ENOUGH))
                    lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
                if lines:
                    return lines[-1][:200]
        return ""


def find(allocator: Allocator, conditions: Conditions, folder: Path) -> Launched | None:
    """The server that an earlier command started in `folder`, if it still runs."""
    try:
        scene = Scene(folder / "dir", folder / "lab", int((folder / _PORT).read_text()))
    except (OSError, ValueError):
        return None
    found = Kept.find(_launch(allocator, conditions, scene, None), folder)
    if found is None:
        return None
    found.hold()
    return Launched(found, scene)


def start(allocator: Allocator, conditions: Conditions, folder: Path) -> Launched:
    """Starts a server in `folder`, which does not exist. HeapyardError if it does not get ready, or is served by another malloc;
    EndedAtOnce where another port may help, which a connection of somebody's may have taken meanwhile.
    """
    folder.mkdir(parents=True)
    scene = set_scene(folder, conditions.program)
    (folder / _PORT).write_text(str(scene.port))
    collector, traces = None, ""
    if conditions.profile:
        traces = str(folder / "traces")
        plan = Plan(conditions.program.command, told_by_heap=samples_itself(allocator.library))
        collector = Collector(Path(traces), plan)
        Running.at_work.add(collector.pid)  # it is no orphan of a launcher that was killed
    under = f"{conditions.program.name} under {allocator.name}"
    try:
        kept = Kept.start(_launch(allocator, conditions, scene, collector), folder, conditions.home, conditions.patience)
    except HeapyardError as error:
        if collector is not None:
            Running.at_work.discard(collector.pid)
            collector.stop()
        raise HeapyardError(f"{under}: {error.message}", remedy=error.remedy) from None
    launched = Launched(kept, scene, traces, collector)
    why = "could not be made ready"  # an interruption leaves it so
    try:
        why = _flaw(launched, allocator, conditions)
    finally:
        if why:
            said, by_itself = launched.last_line(), kept.wait(0)
            kept.kill()
            how = kept.close()
            launched.end_profile()
    if not why:
        kept.hold()
        return launched
    if conditions.stop.is_set():
        raise KeyboardInterrupt
    kind = EndedAtOnce if by_itself else HeapyardError
    raise kind(f"{under}: the server {why}{f', {how}' if by_itself else ''}{f'; it said: {said}' if said else ''}")


def _flaw(launched: Launched, allocator: Allocator, conditions: Conditions) -> str:
    """Why the server cannot be measured, to follow "the server"; "" once it is ready and warm."""
    program, scene, kept = conditions.program, launched.scene, launched.kept
    assert program.server is not None
    if why := wait_until_ready(program, kept, scene, conditions.stop):
        return why
    if why := _doubt(launched, allocator):
        return f"is not served by the library: {why}"
    if not program.server.warm_up:
        return ""
    (warm,) = run_at_once("warm_up", [program.server.warm_up], program, scene, Settings(), _WARM_UP, conditions.stop, kept)
    return f"was not warmed up: the warm-up {warm.failed}" if warm.failed else ""


def _doubt(launched: Launched, allocator: Allocator) -> str:
    """Why the library may not serve every process that runs by now; "" if it does."""
    kept, until = launched.kept, time.monotonic() + _LOADS
    while True:
        errors = kept.launch.stderr.read_text(errors="replace")
        processes = [found for pid in below(kept.keeper) if (found := _process(pid, allocator))]
        why = objection(read_testimonies(launched.scene.lab / "witness"), processes, kept.pid, allocator, errors)
        if not why or time.monotonic() > until:
            return why
        time.sleep(LOADED_AFTER)  # a process that has just begun may still be loading it


def _process(pid: int, allocator: Allocator) -> dict[str, object]:
    """A process as `objection` wants it told; nothing of one that has ended."""
    library = os.path.realpath(allocator.library or "")
    told: dict[str, object] = {"pid": pid, "looks": 3, "executable": "", "mapped": True}
    try:
        told["name"] = Path(f"/proc/{pid}/comm").read_text().strip()
        told["executable"] = os.readlink(f"/proc/{pid}/exe")
        told["mapped"] = f" {library}\n" in Path(f"/proc/{pid}/maps").read_text()
        told["mappings_seen_at"] = LOADED_AFTER
    except PermissionError:
        pass  # another user's
    except OSError:
        return {}
    return told


def _launch(allocator: Allocator, conditions: Conditions, scene: Scene, collector: Collector | None) -> Launch:
    treatment = Treatment(allocator.name, allocator)
    return prepare_launch(conditions.program, treatment, Settings(), scene, pad=0, collector=collector)

# SPDX-License-Identifier: Apache-2.0
"""The environment and the command of one launch: the injected library, options, padding, placeholders."""

from __future__ import annotations

import os
import random
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..model import places
from ..model.errors import HeapyardError, UsageError
from ..model.experiment import Settings, Treatment
from ..model.program import Program
from ..model.shared import WISH_VARIABLE
from .collector import Collector

WITNESS = "libheapyard_witness.so"
_OURS = ("HEAPYARD_ROOT", "HEAPYARD_STATE", "HEAPYARD_BUILT")  # set by the launcher script for the lab, not for programs under test


@dataclass(frozen=True, slots=True)
class Scene:
    """Where one trial happens: `dir` is {dir}, `lab` holds what the lab writes; `port` is 0 unless it serves."""

    dir: Path
    lab: Path
    port: int

    def fill(self, text: str, program: Program) -> str:
        """Placeholders replaced, unless the command is the user's own."""
        return text if program.literal else text.replace("{dir}", str(self.dir)).replace("{port}", str(self.port))


def set_scene(folder: Path, program: Program) -> Scene:
    """Makes the trial's folders inside `folder`, and picks a free loopback port for a server.

    A server's {dir} is a copy of its state, where it has one. HeapyardError for a port in use, or a state that cannot be copied.
    """
    scene = Scene(folder / "dir", folder / "lab", free_port(program.server.port) if program.server else 0)
    scene.dir.mkdir()
    if program.server and program.server.state:
        _copy(program.server.state, scene.dir)
    scene.lab.mkdir()
    (scene.lab / "witness").touch()
    if os.geteuid() == 0:
        _open_to_other_users(folder, scene)
    return scene


def _open_to_other_users(folder: Path, scene: Scene) -> None:
    """Servers that root starts take another user: it must reach {dir} and may testify; others cannot list what is here."""
    for passed in (folder, scene.lab):
        passed.chmod(0o711)
    (scene.lab / "witness").chmod(0o666)


def free_port(wanted: int) -> int:
    """The one wanted, or for 0 one that is free. UsageError for one that is in use.

    It is none of those that the kernel gives to connections, or one of a load beside could take it before the server does.
    """
    if not wanted:
        few, many = (int(word) for word in Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
        apart = [port for port in range(10_000, 65_536) if not few <= port <= many]
        for port in random.sample(apart, min(len(apart), 50)):
            try:
                return _bound(port)
            except OSError:
                continue
    try:
        return _bound(wanted)
    except OSError as error:
        raise UsageError(f"port {wanted} cannot be had: {os.strerror(error.errno or 0)}",
                         remedy="Write {port} for a port that is free in each trial.") from None


def _bound(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return probe.getsockname()[1]


def _copy(state: Path, folder: Path) -> None:
    """With owners and modes, which servers look at; without taking disk space where the file system can share blocks."""
    done = subprocess.run(["cp", "--archive", "--reflink=auto", f"{state}/.", folder], capture_output=True, text=True)
    if done.returncode:
        raise HeapyardError(f"the state {state} cannot be copied: {done.stderr.strip().splitlines()[-1]}")


def plain_environment(program: Program, scene: Scene) -> dict[str, str]:
    """What the program's helpers (its client, its stop command) see, and what additions() is added to."""
    if program.inherit_env:
        base = {name: value for name, value in os.environ.items() if name not in _OURS}
    else:
        base = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(scene.dir), "LANG": "C.UTF-8", "TZ": "UTC"}
    return base | {name: scene.fill(value, program) for name, value in program.env.items()}


def additions(
    program: Program, treatment: Treatment, scene: Scene, *, pad: int, collector: Collector | None = None
) -> dict[str, str]:
    """What makes this treatment: the library, its options, other factors, the witness, and `pad` bytes of padding.

    Random padding moves the stack, so that one lucky alignment cannot decide (Mytkowicz et al., ASPLOS 2009).
    """
    allocator = treatment.allocator
    # The tracer stands in front of malloc; then the witness, which asks for the next definition after its own object.
    libraries = [
        *([collector.library] if collector else []), places.native(WITNESS), *([allocator.library] if allocator.library else []),
    ]
    preload = [_preloadable(library, scene) for library in libraries]
    if program.inherit_env and (given := os.environ.get("LD_PRELOAD")):
        preload.append(given)
    added = {"LD_PRELOAD": ":".join(preload), **allocator.env}
    added |= {name.removeprefix("env."): value for name, value in treatment.levels.items() if name.startswith("env.")}
    added |= {WISH_VARIABLE: collector.wish} if collector else {}
    return added | {"HEAPYARD_WITNESS": str(scene.lab / "witness"), "HEAPYARD_PAD": "x" * pad}


def _preloadable(library: Path, scene: Scene) -> str:
    """The library's path, or a link to it where LD_PRELOAD would take a blank or colon in the path for a separator, or QEMU's
    option for the environment a comma."""
    if not set(" :,") & set(str(library)):
        return str(library)
    link = scene.lab / library.name.translate({ord(char): "_" for char in " :,"})
    if not link.is_symlink():
        link.symlink_to(library)
    return str(link)


def cpus_of(treatment: Treatment, settings: Settings, processors: int = 0) -> tuple[int, ...]:
    """CPU affinity: the level of the factor `cpus`, else the setting; of these the first `processors`, unless 0."""
    level = treatment.levels.get("cpus")
    cpus = tuple(int(cpu) for cpu in level.split(",")) if level else settings.cpus
    return (cpus or tuple(sorted(os.sched_getaffinity(0))))[:processors] if processors else cpus

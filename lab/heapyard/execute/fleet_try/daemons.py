# SPDX-License-Identifier: Apache-2.0
"""Starting munged, slurmctld and a slurmd per node, and waiting until the nodes take jobs."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ...model.errors import HeapyardError, UsageError
from ..trial_environment import free_port
from .config import write_config
from .munge import munged, socket_of, write_key
from .name_spaces import connect, name_hosts, node_apart, node_here
from .plan import Node, Plan
from .quota import make_group

_PATIENCE = 60.0  # seconds until all nodes must have reported, on a machine whose processors are busy
_LOOK = 0.05  # seconds between two looks


class Daemons:
    """All that runs for one plan. `groups`: control groups that must be removed when everything has ended."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.groups: list[Path] = []
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._env = {**os.environ, "SLURM_CONF": str(plan.conf)}

    def start(self, stop: Callable[[], bool]) -> None:
        """HeapyardError if one ends, or the nodes do not report in time; KeyboardInterrupt once `stop()` holds."""
        plan = self.plan
        if not plan.apart:
            _check_ports([plan.port, *(node.port for node in plan.nodes)])
        write_config(plan)
        write_key(plan.folder)
        self._start("munged", munged(plan.folder))
        if plan.apart:
            name_hosts(plan)
        nodes = {node.name: self._start(node.name, self._node(node), wait=True) for node in plan.nodes}
        if plan.apart:
            for process in nodes.values():
                _pipe(process.stdout).readline()  # its name spaces are there, or it has ended
            self._look()
            connect(plan, {name: process.pid for name, process in nodes.items()})
        self._wait("munged", socket_of(plan.folder).exists, stop)
        self._start("slurmctld", ["slurmctld", "-D", "-c", "-i", "-f", str(plan.conf)])
        self._wait("slurmctld", self._answers, stop)
        for process in nodes.values():
            _pipe(process.stdin).write(b"\n")
            _pipe(process.stdin).close()
        self._wait("slurmd", self._all_idle, stop)

    def _node(self, node: Node) -> list[str]:
        """A command that waits for a line before it becomes the node's slurmd."""
        slurmd = ["taskset", "--cpu-list", ",".join(map(str, node.cpus)), "slurmd", "-D", "-N", node.name, "-f",
                  str(self.plan.conf)]
        group = None
        if node.share is not None:
            try:
                group = make_group(node.name, node.share)
            except OSError as error:
                raise HeapyardError(f"{node.name} cannot be slowed: this machine grants no control group with a processor's quota "
                                    f"({error.strerror or error})", remedy="Leave out --slow.") from None
            self.groups.append(group)
        return node_apart(node, slurmd, group) if self.plan.apart else node_here(slurmd, group)

    def _start(self, name: str, words: list[str], wait: bool = False) -> subprocess.Popen[bytes]:
        with (self.plan.folder / "log" / f"{name}.out").open("wb") as told:
            process = subprocess.Popen(words, env=self._env, start_new_session=True, stderr=told, cwd=self.plan.folder,
                                       stdin=subprocess.PIPE if wait else subprocess.DEVNULL,
                                       stdout=subprocess.PIPE if wait and self.plan.apart else told)
        self._running[name] = process
        return process

    def _answers(self) -> bool:
        return b"UP" in self._ask("scontrol", "ping")

    def _all_idle(self) -> bool:
        return self._ask("sinfo", "--noheader", "--Node", "--format=%T").split() == [b"idle"] * len(self.plan.nodes)

    def _ask(self, *words: str) -> bytes:
        return subprocess.run(words, env=self._env, capture_output=True, stdin=subprocess.DEVNULL).stdout

    def _wait(self, whom: str, holds: Callable[[], bool], stop: Callable[[], bool]) -> None:
        until = time.monotonic() + _PATIENCE
        while not holds():
            self._look()
            if stop():
                raise KeyboardInterrupt
            if time.monotonic() > until:
                raise HeapyardError(f"{whom} did not get ready within {_PATIENCE:.0f} s{self._last_words(whom)}")
            time.sleep(_LOOK)

    def _look(self) -> None:
        for name, process in self._running.items():
            if process.poll() is not None:
                raise HeapyardError(f"{name} ended while it started{self._last_words(name)}")

    def _last_words(self, name: str) -> str:
        """The last error that a daemon wrote, or its last line."""
        lines = [line for file in (self.plan.folder / "log").glob(f"{name}*") for line in
                 file.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if re.search(r"error|fatal", line, re.IGNORECASE)]
        return f": {(errors or lines)[-1].strip()}" if lines else ""


def _check_ports(ports: list[int]) -> None:
    """They were free when they were chosen. Slurm's clients would wait long for the answer of a stranger."""
    for port in ports:
        try:
            free_port(port)
        except UsageError as error:
            raise HeapyardError(error.message, remedy="Start again: it will choose other ports.") from None


def _pipe(end: IO[bytes] | None) -> IO[bytes]:
    assert end
    return end

# SPDX-License-Identifier: Apache-2.0
"""What a throw-away Slurm is to look like: its nodes and how they differ, its folder and its ports."""

from __future__ import annotations

import json
import os
import pwd
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ...model.errors import UsageError
from ..trial_environment import free_port

HEAD = "head"  # the host name of the controller, where it has a name space
MOST_NODES = 64
LEAST_SHARE = 0.1  # of a processor: below, the kernel's shortest quota would stop a node for longer than a period
_NETWORK = "10.77.0"  # inside of name spaces of our own, where nothing else is


@dataclass(frozen=True, slots=True)
class Node:
    """A node: `cpus` are the processors it may use, `share` how much of one processor all its work gets (None: no limit)."""

    name: str
    address: str
    port: int
    cpus: tuple[int, ...]
    share: float | None = None
    env: dict[str, str] = field(default_factory=dict)

    @property
    def features(self) -> list[str]:
        """What `--constraint` may ask for: its number of processors, and whether it is slowed or has own variables."""
        return [f"cpus{len(self.cpus)}", *(["slow"] if self.share else []), *(["env"] if self.env else [])]


@dataclass(frozen=True, slots=True)
class Plan:
    """`apart`: each node has a network and a host name of its own; `temporary`: the folder goes at the end."""

    folder: Path
    temporary: bool
    apart: bool
    head: str
    address: str
    port: int
    user: str
    nodes: tuple[Node, ...]

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    def write(self) -> Path:
        """As the keeper reads it."""
        file = self.folder / "plan.json"
        file.write_text(json.dumps({**asdict(self), "folder": str(self.folder)}, indent=1))
        return file

    @classmethod
    def read(cls, file: Path) -> Plan:
        told = json.loads(file.read_text())
        nodes = tuple(Node(**{**node, "cpus": tuple(node["cpus"])}) for node in told.pop("nodes"))
        return cls(**{**told, "folder": Path(told["folder"]), "nodes": nodes})


@dataclass(frozen=True, slots=True)
class Differences:
    """How nodes differ on purpose, by the name of the node."""

    cpus: Mapping[str, int]
    shares: Mapping[str, float]
    env: Mapping[str, Mapping[str, str]]


def node_names(count: int) -> list[str]:
    return [f"node{number}" for number in range(1, count + 1)]


def make_plan(folder: Path, temporary: bool, apart: bool, count: int, differences: Differences) -> Plan:
    """UsageError for a node that is not there, or more processors than there are. O(nodes)."""
    names, processors = node_names(count), sorted(os.sched_getaffinity(0))
    for named in (differences.cpus, differences.shares, differences.env):
        if unknown := [name for name in named if name not in names]:
            raise UsageError(f"there is no {unknown[0]}: the nodes are {names[0]} to {names[-1]}" if count > 1 else
                             f"there is no {unknown[0]}: the only node is {names[0]}")
    for name, wanted in differences.cpus.items():
        if not 1 <= wanted <= len(processors):
            raise UsageError(f"{name} cannot have {wanted} processors: this machine has {len(processors)}")
    ports = [6817] + [6818] * count if apart else free_ports(count + 1)
    nodes = []
    for number, name in enumerate(names):
        cpus = differences.cpus.get(name, len(processors))
        own = sorted(processors[(number + step) % len(processors)] for step in range(cpus))  # small ones spread
        nodes.append(Node(
            name, f"{_NETWORK}.{number + 1}" if apart else "127.0.0.1", ports[number + 1], tuple(own),
            differences.shares.get(name), dict(differences.env.get(name, {})),
        ))
    head = HEAD if apart else socket.gethostname().split(".")[0]
    address = f"{_NETWORK}.254" if apart else "127.0.0.1"
    return Plan(folder, temporary, apart, head, address, ports[0], pwd.getpwuid(os.geteuid()).pw_name, tuple(nodes))


def free_ports(count: int) -> list[int]:
    """So many ports of 127.0.0.1 that nobody listens on at this moment."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port(0))
    return list(found)

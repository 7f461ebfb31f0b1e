# SPDX-License-Identifier: Apache-2.0
"""Name spaces of the kernel: a network and a host name for the controller and each node, and one of processes around all.

The network lies in the controller's own name space: a bridge, and a pair of interfaces to each node. The machine's network is
not touched, and nothing of it is left when the last process of the name spaces has ended.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .plan import Node, Plan

_ALL = ("--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# As a user that is not root: a user name space, in which the user may do all this.
_AS_USER = ("--user", "--map-current-user", "--keep-caps")
_PROBE = (
    "ip link add dev probe0 type bridge && ip link add dev probe1 type veth peer name probe2 && "
    "mount --bind /etc/hosts /etc/hosts && hostname probe"
)
_BRIDGE = "fleet"


def permitted() -> tuple[list[str] | None, str]:
    """(the options of unshare that this user may use here, ""), or (None, why not). Two short processes at most."""
    reason = ""
    for options in (_ALL, (*_AS_USER, *_ALL)):
        try:
            tried = subprocess.run(["unshare", *options, "sh", "-c", _PROBE], capture_output=True, text=True,
                                   stdin=subprocess.DEVNULL)
        except FileNotFoundError:
            return None, "there is no program unshare"
        if tried.returncode == 0:
            return list(options), ""
        reason = (tried.stderr.strip().splitlines() or [f"unshare ended with {tried.returncode}"])[-1]
    return None, reason


def entering(pid: int, options: Sequence[str], folder: Path, environment: Mapping[str, str]) -> list[str]:
    """The words before a command that make it run beside process `pid`, in `folder`.

    nsenter only waits: it must survive a Ctrl-C that its command may take as it likes, hence --default-signal.
    """
    user = ["--user", "--preserve-credentials"] if "--user" in options else []
    variables = [f"{name}={value}" for name, value in environment.items()]
    return ["nsenter", f"--target={pid}", *user, "--net", "--uts", "--ipc", "--mount", "--pid", "--",
            "env", f"--chdir={folder}", "--default-signal=INT", *variables]


def node_apart(node: Node, words: Sequence[str], group: Path | None) -> list[str]:
    """A command that makes a node's name spaces, says a word, waits for a line, brings up the network and becomes `words`.

    The line comes when the node's interface is in place. A control group is entered before, and is the topmost that the node
    sees, as in a container.
    """
    network = f"ip link set lo up && ip address add {node.address}/24 dev eth0 && ip link set eth0 up"
    inside = f"echo made && read -r ready && hostname {node.name} && {network} && exec {shlex.join(words)}"
    made = ["unshare", "--net", "--uts", *(["--cgroup"] if group else []), "sh", "-c", inside]
    return ["sh", "-c", f"{_enter(group)}exec {shlex.join(made)}"]


def node_here(words: Sequence[str], group: Path | None) -> list[str]:
    """The same without name spaces: it waits for a line and becomes `words`."""
    return ["sh", "-c", f"{_enter(group)}read -r ready && exec {shlex.join(words)}"]


def _enter(group: Path | None) -> str:
    return f"echo $$ >{shlex.quote(str(group / 'cgroup.procs'))} && " if group else ""


def connect(plan: Plan, pids: Mapping[str, int]) -> None:
    """The controller's bridge, and a pair of interfaces to each node, whose process is `pids[name]`. One process of ip."""
    lines = ["link set lo up", f"link add dev {_BRIDGE} type bridge", f"address add {plan.address}/24 dev {_BRIDGE}",
             f"link set dev {_BRIDGE} up"]
    for node in plan.nodes:
        lines += [f"link add dev {node.name} type veth peer name eth0 netns {pids[node.name]}",
                  f"link set dev {node.name} master {_BRIDGE} up"]
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip could not make the network: {done.stderr.strip()}")


def name_hosts(plan: Plan) -> None:
    """An /etc/hosts with the nodes' names, seen inside of the name spaces only."""
    file = plan.folder / "hosts"
    rows = ["127.0.0.1 localhost", f"{plan.address} {plan.head}", *(f"{node.address} {node.name}" for node in plan.nodes)]
    file.write_text("\n".join(rows) + "\n")
    subprocess.run(["mount", "--bind", str(file), "/etc/hosts"], check=True, capture_output=True, text=True)

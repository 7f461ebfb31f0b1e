# SPDX-License-Identifier: Apache-2.0
"""`heapyard fleet try`: a throw-away Slurm on this machine."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..model.errors import UsageError
from .consoles import remark

if TYPE_CHECKING:
    from ..execute.fleet_try.cluster import ThrowAwaySlurm


class _PerNode(click.ParamType):
    """`node2=1`, `node3=50%` or `node2:NAME=VALUE`: a node, and what is told of it."""

    def __init__(self, name: str, form: str, example: str) -> None:
        self.name, self._form, self._example = name, form, example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        found = re.fullmatch(self._form, value)
        if not found:
            raise click.BadParameter(f"'{value}' is not understood; write for example {self._example}", ctx=ctx, param=param)
        return found.groups()


@click.command()
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--nodes", type=click.IntRange(1, 64), default=3, show_default=True, metavar="N", help="How many nodes.")
@click.option("--cpus-of", "cpus", multiple=True, metavar="NODE=N", type=_PerNode("cpus", r"([^=:]+)=(\d+)", "node2=1"),
              help="Let a node use so many processors; else it uses all.")
@click.option("--slow", "shares", multiple=True, metavar="NODE=SHARE%",
              type=_PerNode("share", r"([^=:]+)=(\d+(?:\.\d+)?)%", "node3=50%"),
              help="Let all that runs on a node have this share of one processor's time.")
@click.option("--env", "env", multiple=True, metavar="NODE:NAME=VALUE",
              type=_PerNode("env", r"([^=:]+):([A-Za-z_]\w*)=(.*)", "node2:GLIBC_TUNABLES=glibc.malloc.tcache_count=0"),
              help="Set a variable for whatever runs on a node.")
@click.option("--one-host", is_flag=True,
              help="Make no name spaces: nodes differ by name and port, and share the machine's network.")
@click.option("--keep", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Make this folder for configuration, state and logs, and leave it; else they are temporary.")
def command(
    words: tuple[str, ...], nodes: int, cpus: tuple[tuple[str, str], ...], shares: tuple[tuple[str, str], ...],
    env: tuple[tuple[str, str, str], ...], one_host: bool, keep: Path | None,
) -> int:
    """Try a fleet on this machine: a throw-away Slurm with some nodes, for as long as a command or a shell runs.

    It is made from the system's packages of Slurm and munge, which are installed if need be. No service of the system is used.
    As root, each node has its own host name and network. All of it ends with the command, or the shell.

    The nodes share this machine's processors: times measured there are not those of separate machines.

    \b
    Examples:
      heapyard fleet try
      heapyard fleet try --nodes 2 -- srun -N2 hostname
      heapyard fleet try --slow node3=50% --env node2:GLIBC_TUNABLES=glibc.malloc.tcache_count=0
    """
    from ..execute.fleet_try.cluster import ThrowAwaySlurm
    from ..execute.fleet_try.packages import extend_path, have_programs
    from ..execute.fleet_try.plan import Differences
    from .status_line import StatusLine

    extend_path()
    shell = words or (os.environ.get("SHELL") or "/bin/sh",)
    if not shutil.which(shell[0]):
        raise UsageError(f"there is no program '{shell[0]}'")
    if keep and keep.exists():
        raise UsageError(f"{keep} exists already", remedy="Name a folder that --keep may make.")
    differences = Differences({node: int(number) for node, number in cpus}, _shares(shares), _variables(env))
    have_programs(remark)
    with ExitStack() as stack:
        with StatusLine() as status:
            status.tell(f"starting Slurm with {nodes} {'node' if nodes == 1 else 'nodes'}")
            slurm = stack.enter_context(ThrowAwaySlurm(nodes, differences, keep, one_host))
        for line in _introduction(slurm, is_shell=not words):
            remark(line)
        return slurm.run(shell, is_shell=not words)


def _shares(told: tuple[tuple[str, str], ...]) -> dict[str, float]:
    from ..execute.fleet_try.plan import LEAST_SHARE

    shares = {node: float(percent) / 100 for node, percent in told}
    for node, share in shares.items():
        if not LEAST_SHARE <= share <= 1:
            raise UsageError(f"{node} cannot be slowed to {share:.0%}: give {LEAST_SHARE:.0%} to 100% of one processor")
    return shares


def _variables(told: tuple[tuple[str, str, str], ...]) -> dict[str, dict[str, str]]:
    variables: dict[str, dict[str, str]] = {}
    for node, name, value in told:
        variables.setdefault(node, {})[name] = value
    return variables


def _introduction(slurm: ThrowAwaySlurm, is_shell: bool) -> list[str]:
    """What was made, what its times are worth, what to try; for a command only what it does not say of itself."""
    names = [node.name for node in slurm.plan.nodes]
    nodes = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    if slurm.plan.apart:
        made = f"until this shell ends, Slurm has {nodes}, each with its own host name and network"
    else:
        made = f"{nodes} share the host name and the network of {slurm.plan.head}"
        if slurm.why_here:
            made += f", which grants no name spaces: {slurm.why_here}"
    if not is_shell:
        return [made] if slurm.why_here else []
    processors = len(os.sched_getaffinity(0))
    return [
        made,
        f"all share this machine's {processors} processors: times are not those of separate machines",
        f"try: sinfo; srun -N{len(names)} -l hostname; sbatch --exclusive --array=1-6%2 --wrap hostname; exit",
    ]

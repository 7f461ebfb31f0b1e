# SPDX-License-Identifier: Apache-2.0
"""slurm.conf of a throw-away Slurm: everything in its own folder, quick to schedule, quick to see that a node is gone."""

from __future__ import annotations

import os
import shlex

from .munge import socket_of
from .plan import Node, Plan

_COMMON = """\
AuthType=auth/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=10
InactiveLimit=0
MinJobAge=3600
KillWait=2
CompleteWait=0
MailProg=/bin/true
PropagateResourceLimits=NONE
"""


def write_config(plan: Plan) -> None:
    """slurm.conf, cgroup.conf beside it, and the folders they name."""
    folder = plan.folder
    for name in ("state", "spool", "log"):
        (folder / name).mkdir()
    for node in plan.nodes:
        (folder / "spool" / node.name).mkdir()
    lines = [
        "ClusterName=try",
        f"SlurmctldHost={plan.head}({plan.address})",
        f"SlurmctldPort={plan.port}",
        f"SlurmUser={plan.user}",
        f"SlurmdUser={plan.user}",
        f"AuthInfo=socket={socket_of(folder)}",
        f"StateSaveLocation={folder / 'state'}",
        f"SlurmctldPidFile={folder / 'slurmctld.pid'}",
        f"SlurmctldLogFile={folder / 'log' / 'slurmctld'}",
        f"SlurmdSpoolDir={folder / 'spool' / '%n'}",
        f"SlurmdPidFile={folder / '%n.pid'}",
        f"SlurmdLogFile={folder / 'log' / '%n'}",
    ]
    lines.append(f"TaskProlog={_task_prolog(plan)}")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    lines += [_node(node, plan, memory) for node in plan.nodes]
    lines.append("PartitionName=try Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
    plan.conf.write_text("\n".join(lines) + "\n" + _COMMON)
    (folder / "cgroup.conf").write_text("CgroupPlugin=autodetect\n")  # else that of the system would be read


def _node(node: Node, plan: Plan, memory: int) -> str:
    host = node.name if plan.apart else plan.head
    return (f"NodeName={node.name} NodeHostname={host} NodeAddr={node.address} Port={node.port} CPUs={len(node.cpus)} "
            f"RealMemory={memory} Feature={','.join(node.features)} State=UNKNOWN")


def _task_prolog(plan: Plan) -> str:
    """The script whose `export` lines Slurm puts into the environment of whatever runs on a node.

    Each node has a lock of its own: to the lab it is a machine on which nobody else measures.
    """
    cases = []
    for node in plan.nodes:
        variables = {"HEAPYARD_LOCK": str(plan.folder / f"{node.name}.lock"), **node.env}
        told = "; ".join(f"printf '%s\\n' {shlex.quote(f'export {name}={value}')}" for name, value in variables.items())
        cases.append(f"{node.name}) {told} ;;")
    file = plan.folder / "task_prolog"
    file.write_text("\n".join(["#!/bin/sh", 'case "$SLURMD_NODENAME" in', *cases, "esac", ""]))
    file.chmod(0o755)
    return str(file)

# SPDX-License-Identifier: Apache-2.0
"""Where the blocks of an experiment run, if not on the machine that asked for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Engine = Literal["", "slurm", "local"]


@dataclass(frozen=True, slots=True)
class Fleet:
    """What the user asked for. `engine` "" is this machine itself, without any of what follows.

    "slurm": exclusive jobs, each of which runs block after block. "local": a process of this machine for each block, one at a
    time, as a test of the way that blocks travel. The words `partition`, `constraint` and `account` are those of Slurm's
    sbatch; "" leaves them out.
    """

    engine: Engine = ""
    nodes: int = 0  # at most so many at once; 0 = as many as Slurm gives
    partition: str = ""
    constraint: str = ""
    account: str = ""
    time_limit: float = 0.0  # seconds of a job; 0 = as long as the trials of a block may take, and some minutes
    shared: str = ""  # a folder that all nodes see; "" = the experiment's own
    sbatch: tuple[str, ...] = ()  # further options of sbatch, such as "qos=long"

# SPDX-License-Identifier: Apache-2.0
"""What a throw-away Slurm is made of: programs of Debian's and Ubuntu's packages, installed through apt where that is allowed."""

from __future__ import annotations

import os
import shutil

from ...catalog import debian
from ...model.errors import SetupError

# program -> the package that has it
PROGRAMS = {
    "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client", "munged": "munge",
    "ip": "iproute2", "unshare": "util-linux", "taskset": "util-linux", "env": "coreutils",
}
_SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin"  # where daemons are, which a user's PATH may lack


def extend_path() -> None:
    """From now on programs are found that only administrators usually start."""
    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM}"


def have_programs(report: debian.Report) -> None:
    """After it, all programs are there. SetupError with the command to type if they may not be installed, or cannot be.

    Services of packages that come in this way are stopped, and do not start with the system.
    """
    absent = {program: package for program, package in PROGRAMS.items() if not shutil.which(program)}
    if not absent:
        return
    packages = list(dict.fromkeys(absent.values()))
    if os.environ.get("HEAPYARD_SYSTEM_PACKAGES") == "skip":
        raise SetupError(f"a throw-away Slurm needs {', '.join(absent)}, which this machine has not",
                         remedy=f"Run: {debian.install_command(packages)}")
    report(f"a throw-away Slurm needs packages that are missing: {', '.join(packages)}")
    debian.install(packages, report, at_rest=True)
    if lacking := [program for program in absent if not shutil.which(program)]:
        raise SetupError(f"there is no {lacking[0]} in PATH, although its package {absent[lacking[0]]} is installed")

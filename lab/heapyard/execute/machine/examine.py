# SPDX-License-Identifier: Apache-2.0
"""What on this machine threatens a result: each check says what it found, what that does, and what to do."""

from __future__ import annotations

from pathlib import Path

from .environment import environment
from .files import Files
from .finding import Finding
from .load import load_findings
from .memory import memory_findings
from .processor import processor_findings

LOOK = (
    1.0  # seconds over which rates are taken: 100 ticks of the kernel's accounting clock, so 1 % of a processor shows
)


def examine(results: Path, *, root: Path = Path("/"), seconds: float = LOOK) -> tuple[Finding, ...]:
    """Every check in a fixed order; never raises: what the system does not tell is said to be unknown.

    `results`: the folder experiments are written to, or will be. `root`: where proc and sys are mounted.
    Takes `seconds` plus O(processes).
    """
    files = Files(root)
    return (*processor_findings(files), *memory_findings(files, results), environment(), *load_findings(files, seconds))

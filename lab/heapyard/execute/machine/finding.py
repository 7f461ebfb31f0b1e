# SPDX-License-Identifier: Apache-2.0
"""One thing that was checked on the machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

Severity = Literal["ok", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`ok`: nothing to fear. `warn`: results are noisier or less general than they could be. `bad`: do not measure so.

    `command` is exact and can be pasted; empty where no command helps. `effect` and `remedy` are empty when all is
    well.
    """

    check: str
    severity: Severity
    state: str
    effect: str = ""
    remedy: str = ""
    command: str = ""


def write_command(value: str, *targets: str) -> str:
    """A shell line that writes `value` into files (or patterns) of the kernel, with sudo unless we are root."""
    return f"echo {value} | {sudo()}tee {' '.join(targets)}"


def sudo() -> str:
    """What stands before a command that only root may run."""
    return "" if os.geteuid() == 0 else "sudo "

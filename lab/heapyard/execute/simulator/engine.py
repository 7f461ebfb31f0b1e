# SPDX-License-Identifier: Apache-2.0
"""The engine of simulated machines: QEMU's user mode with our plugin. Where it is, and the command line that asks for it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...catalog import debian
from ...model import places
from ...model.errors import SetupError
from ...model.simulation import MACHINES, Simulated

PLUGIN = "libheapyard_simulator.so"
PACKAGE = "qemu-user"
SIMULATED_VARIABLE = "HEAPYARD_SIMULATED"  # tells mutators that clocks tell simulated time

_MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}


def engine_name() -> str:
    """QEMU's program for programs of this machine's own architecture."""
    machine = platform.machine()
    return f"qemu-{_MACHINES.get(machine, machine)}"


def have_engine(report: debian.Report) -> Path:
    """The engine, installed with the system's package manager where it is missing. SetupError where that may not be done, or
    cannot be, or where the plugin has not been built."""
    plugin()
    if not shutil.which(engine_name()):
        if os.environ.get("HEAPYARD_SYSTEM_PACKAGES") == "skip":
            raise _absent()
        report(f"simulated machines need a package that is missing: {PACKAGE}")
        debian.install([PACKAGE], report)
    return engine()


def engine() -> Path:
    """The engine's program; SetupError when it is not installed."""
    found = shutil.which(engine_name())
    if found is None:
        raise _absent()
    return Path(found)


def _absent() -> SetupError:
    return SetupError(f"simulated machines need QEMU's user mode, {engine_name()}, which this machine has not",
                      remedy=f"Run: {debian.install_command([PACKAGE])}")


def plugin() -> Path:
    """The plugin that is the machine; SetupError when it is not built."""
    path = places.native(PLUGIN)
    if not path.exists():
        raise SetupError(f"the native part {path} is missing", remedy=places.repair())
    return path


def under_engine(
    command: Sequence[str], machine: Simulated, out: Path, *, argv0: str, added: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """(the command that runs `command` on the machine, and what its own environment has more). The result is written to `out`.

    `added` reaches the program; LD_PRELOAD and whatever else configures a malloc only the program, not QEMU itself. A value
    with a comma cannot: QEMU takes it for the end of the assignment. It goes through QEMU's own environment then.
    """
    options = {"out": out, "machine": MACHINES[machine.machine], "cores": machine.cores, "seed": machine.seed}
    words = [str(plugin()), *(f"{name}={value}" for name, value in options.items())]
    told = ",".join(word.replace(",", ",,") for word in words)  # as QEMU's options spell a comma
    within = {**added, SIMULATED_VARIABLE: "1"}
    passed = {name: value for name, value in within.items() if "," in value}
    words = [str(engine()), "-seed", str(machine.seed), "-plugin", told, *(["-0", argv0] if argv0 else [])]
    for name, value in within.items():
        words += [] if name in passed else ["-E", f"{name}={value}"]
    return [*words, *command], passed

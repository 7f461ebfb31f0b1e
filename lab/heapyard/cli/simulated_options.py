# SPDX-License-Identifier: Apache-2.0
"""Options that let a study run on a simulated machine; the same as the keys of its table [simulated]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from ..model.errors import UsageError
from ..model.simulation import MACHINES, MOST_CORES, USUAL_CORES, Simulated

F = TypeVar("F", bound=Callable[..., Any])


def simulated_options(function: F) -> F:
    """--machine, --cores; see `simulated_by`."""
    machine = click.option("--machine", type=click.Choice(list(MACHINES)),
                           help="Simulate this machine, and measure nothing; the results are labelled so.")
    cores = click.option("--cores", type=click.IntRange(1, MOST_CORES), metavar="N",
                         help=f"Of a simulated machine: how many cores (default {USUAL_CORES}).")
    return machine(cores(function))


def simulated_by(machine: str | None, cores: int | None) -> Callable[[Simulated], Simulated]:
    """What the two options change of the machine that a study asks for. The change is a UsageError where there is none."""

    def change(given: Simulated) -> Simulated:
        if machine is None and cores is not None and not given.wanted:
            raise UsageError("--cores is for a simulated machine", remedy="Add --machine server, desktop, arm-server or epyc.")
        found = replace(given, machine=machine or given.machine, cores=cores or given.cores)
        return replace(found, cores=found.cores or USUAL_CORES, seed=found.seed or 1) if found.wanted else found

    return change

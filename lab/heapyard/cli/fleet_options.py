# SPDX-License-Identifier: Apache-2.0
"""Options of the verbs whose blocks may run on other machines; the same as the keys of a study's table [fleet]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from ..model.errors import UsageError
from ..model.fleet import Fleet
from .options import Duration

F = TypeVar("F", bound=Callable[..., Any])

_NAMES = ("fleet", "nodes", "partition", "constraint", "account", "time_limit", "shared", "sbatch")


def fleet_options(function: F) -> F:
    """--fleet, --nodes, --partition, --constraint, --account, --time-limit, --shared, --sbatch; see `taken`."""
    for option in reversed(
        (
            click.option(
                "--fleet",
                type=click.Choice(["slurm", "local"]),
                help="Run blocks as jobs of Slurm, each with a node to itself; local: as processes on this machine, "
                "not a fleet, one at a time.",
            ),
            click.option("--nodes", type=click.IntRange(1), metavar="N", help="Of a fleet: use at most N nodes at once."),
            click.option("--partition", metavar="NAME", help="Of Slurm: the partition of the jobs."),
            click.option("--constraint", metavar="FEATURES", help="Of Slurm: features that nodes must have."),
            click.option("--account", metavar="NAME", help="Of Slurm: the account that is charged."),
            click.option("--time-limit", type=Duration(), help="Of Slurm: for one job (default: what a block may take)."),
            click.option(
                "--shared",
                type=click.Path(path_type=Path),
                metavar="FOLDER",
                help="Of a fleet: what travels lies there, and all nodes see it (default: the experiment's folder).",
            ),
            click.option("--sbatch", multiple=True, metavar="NAME=VALUE", help="Of Slurm: a further option, such as qos=long."),
        )
    ):
        function = option(function)
    return function


def taken(options: dict[str, Any]) -> Callable[[Fleet], Fleet]:
    """Takes these options out of `options`; what they change of a study's or an experiment's fleet.

    The change is a UsageError where an option is given and there is no fleet.
    """
    given = {name: value for name in _NAMES if (value := options.pop(name)) not in (None, ())}

    def change(fleet: Fleet) -> Fleet:
        words = {"engine" if name == "fleet" else name: value for name, value in given.items()}
        if "shared" in words:
            words["shared"] = str(words["shared"].absolute())
        changed = replace(fleet, **words)
        if given and not changed.engine:
            raise UsageError(f"--{next(iter(given)).replace('_', '-')} is for a fleet", remedy="Add --fleet slurm.")
        return changed

    return change


def elsewhere(options: dict[str, Any]) -> bool:
    """Do the options name a fleet?"""
    return options["fleet"] is not None

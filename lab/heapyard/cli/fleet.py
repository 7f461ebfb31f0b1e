# SPDX-License-Identifier: Apache-2.0
"""`heapyard fleet`: many machines that share the work."""

from __future__ import annotations

import importlib

import click

from ..model.errors import UsageError

# name -> (module of the click command, help line)
PARTS = {
    "status": ("heapyard.cli.fleet_jobs", "List blocks and jobs: state, node, since when."),
    "cancel": ("heapyard.cli.fleet_jobs", "End all jobs of an experiment."),
    "try": ("heapyard.cli.fleet_try", "Try a fleet on this machine: a throw-away Slurm with some nodes."),
}


class _FleetGroup(click.Group):
    """A group whose commands are named in a table and imported only when called: `NAME` of their module, else `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(PARTS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in PARTS:
            return None
        module = importlib.import_module(PARTS[cmd_name][0])
        return getattr(module, cmd_name, None) or module.command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in PARTS and not args[0].startswith("-"):
            raise UsageError(f"'{args[0]}' is no part of fleet", remedy=f"Its parts are: {', '.join(PARTS)}.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Parts"):
            formatter.write_dl([(name, line) for name, (_, line) in PARTS.items()])


@click.command(cls=_FleetGroup)
def command() -> None:
    """Share the blocks of a study among the machines of a cluster that Slurm manages.

    docs/fleet.md leads from a laptop to a cluster.
    """

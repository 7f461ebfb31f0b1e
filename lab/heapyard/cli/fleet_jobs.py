# SPDX-License-Identifier: Apache-2.0
"""`heapyard fleet status` and `heapyard fleet cancel`: blocks and jobs of experiments, by name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from ..api.fleet.usage import Away, away, cancel_jobs, experiments_away
from ..model.units import counted

_OUTPUT = click.option("--output", type=click.Path(path_type=Path), metavar="FOLDER", help="Where experiments are stored.")


@click.command()
@click.argument("experiment", required=False, metavar="[EXPERIMENT]")
@click.option("--json", "json_", is_flag=True, help="Print everything as JSON.")
@_OUTPUT
def status(experiment: str | None, json_: bool, output: Path | None) -> None:
    """List what experiments have given to other machines: each block, its job, the job's state, its node, since when.

    Without a name: all experiments that have blocks out.

    \b
    Examples:
      heapyard fleet status
      heapyard fleet status otter
    """
    from ..store import find_folder

    folders = [find_folder(experiment, output)] if experiment else experiments_away(output)
    found = {folder.name: away(folder) for folder in folders}
    if json_:
        click.echo(json.dumps({name: [asdict(row) for row in rows] for name, rows in found.items()}, indent=1))
        return
    if not any(found.values()):
        click.echo(f"{experiment or 'no experiment'} has {'no ' if experiment else ''}blocks out")
    for name, rows in found.items():
        if rows:
            _table(name, rows)


@click.command()
@click.argument("experiment", metavar="EXPERIMENT")
@_OUTPUT
def cancel(experiment: str, output: Path | None) -> None:
    """End all jobs of an experiment, queued and running ones; what has come back stays.

    \b
    Example:
      heapyard fleet cancel otter
    """
    from ..store import find_folder

    folder = find_folder(experiment, output)
    ended = cancel_jobs(folder)
    click.echo(f"{counted(ended, 'job')} of {folder.name} cancelled; to go on: heapyard resume {folder.name}")


def _table(name: str, rows: Sequence[Away]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    states = Counter(row.state for row in rows)
    click.echo(f"{name}: {counted(len(rows), 'block')} out ({', '.join(f'{n} {state}' for state, n in states.items())})")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("block", "program", "job", "state", "node", "since"):
        table.add_column(title, justify="right" if title == "block" else "left", overflow="fold")
    for row in rows:
        table.add_row(str(row.block), row.workload, row.job, row.state, row.node or row.why, row.since)
    Console().print(table)

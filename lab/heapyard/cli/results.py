# SPDX-License-Identifier: Apache-2.0
"""`heapyard results`: the experiments on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .consoles import answers, remark

if TYPE_CHECKING:
    from ..store import Listed

SHOWN = 20
WIDE = 100  # columns from which the time gets one of its own; the id begins with it


@click.command()
@click.option("--all", "all_", is_flag=True, help=f"Every experiment, not only the newest {SHOWN}.")
@click.option("--json", "json_", is_flag=True, help="Print the list as JSON.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FOLDER", help="Experiments stored there.")
def command(all_: bool, json_: bool, output: Path | None) -> None:
    """List the experiments on this machine, the newest first.

    Verbs accept an experiment as its id, a beginning of the id, its last word, `last`, or a path.
    """
    from ..store import list_records

    listed = list_records(output)
    shown = listed if all_ else listed[:SHOWN]
    if json_:
        click.echo(
            json.dumps([{**asdict(entry), "path": str(entry.path)} for entry in shown], indent=1, ensure_ascii=False)
        )
        return
    if not shown:
        remark("there are no experiments yet; heapyard compare makes one")
        return
    _print_table(shown)
    if len(shown) < len(listed):
        remark(f"{len(listed) - len(shown)} older ones: heapyard results --all")


def _print_table(shown: list[Listed]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    console = answers()
    wide = console.width >= WIDE
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("experiment", *(["when"] if wide else []), "status"):
        table.add_column(heading, no_wrap=True)
    table.add_column("blocks", justify="right", no_wrap=True)
    table.add_column("title, programs × allocators, answer", ratio=1)
    for entry in shown:
        if entry.problem:
            when, status, blocks = "", Text("unreadable", style="red"), ""
            text = Text(entry.problem)
        else:
            when = datetime.fromisoformat(entry.created).astimezone().strftime("%Y-%m-%d %H:%M")
            status, blocks = Text(entry.status), f"{entry.done}/{entry.planned}"
            text = Text(entry.title)
            size = f"{len(entry.programs)} × {len(entry.treatments)}, {entry.trials} trials"
            text.append("".join(f"\n{line}" for line in (size, entry.verdict) if line), style="dim")
        table.add_row(Text(entry.id), *([when] if wide else []), status, blocks, text)
    console.print(table)

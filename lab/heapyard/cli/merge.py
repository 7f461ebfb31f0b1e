# SPDX-License-Identifier: Apache-2.0
"""`heapyard merge`: experiments of other machines or folders, brought together."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from ..model import places
from ..model.errors import EXIT_FAILED, EXIT_OK, UsageError
from ..model.units import counted, format_duration
from .consoles import remark

if TYPE_CHECKING:
    from ..store import Merged

SHOWN_FROM = 2.0  # seconds before progress is shown


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FOLDER...")
@click.option("--into", type=click.Path(path_type=Path), metavar="FOLDER", help="Where to (default: the usual results).")
@click.option("--json", "json_", is_flag=True, help="Print what became of each experiment as JSON.")
def command(folders: tuple[Path, ...], into: Path | None, json_: bool) -> int:
    """Bring experiments together: of another machine, from a network folder, or returned as files.

    A FOLDER holds results, or is that of one experiment; it stays as it is. What is there already counts once. Where two
    copies of an experiment went on apart, blocks that only one has are taken over. A block that both ran is kept once:
    the one that began first.

    \b
    Examples:
      heapyard merge /mnt/lab/results
      heapyard merge node1/results node2/results --into all
      heapyard merge 261120-1432-otter
    """
    from ..api.merging import merge
    from ..store import network_type, sources_in
    from .status_line import StatusLine

    target = into or places.results()
    for folder in folders:
        if folder.exists() and target.exists() and folder.samefile(target):
            raise UsageError(f"{folder}: is the folder to merge into", remedy="Name another with --into.")
    sources = [source for folder in folders for source in sources_in(folder)]
    found: list[Merged] = []
    with StatusLine() as line:
        for merged in merge(sources, target):
            found.append(merged)
            took = monotonic() - line.began
            if took > SHOWN_FROM:
                left = took / len(found) * (len(sources) - len(found))
                line.tell(f"{len(found)} of {counted(len(sources), 'experiment')}, {format_duration(left)} left")
    network = network_type(target)
    if network:
        remark(f"{target} lies on {network}: a rollback journal is kept there, and one machine at a time may run an experiment")
    if json_:
        said = [{**asdict(m), "source": str(m.source), "folder": str(m.folder)} for m in found]
        click.echo(json.dumps(said, indent=1, ensure_ascii=False))
    else:
        _show(found, target)
    return EXIT_FAILED if any(m.outcome in ("unreadable", "busy") for m in found) else EXIT_OK


def _show(found: list[Merged], target: Path) -> None:
    for merged in found:
        if merged.outcome == "extended":
            click.echo(f"{merged.id}: {_blocks(merged)}")
        elif merged.outcome == "apart":
            click.echo(f"{merged.folder.name}: {merged.why}")
        elif merged.outcome in ("busy", "unreadable"):
            remark(f"{merged.source}: left out: {merged.why}")
    parts = [
        f"{number} {words}"
        for outcome, words in (("new", "new"), ("extended", "extended"), ("same", "there already"), ("apart", "kept apart"))
        if (number := sum(m.outcome == outcome for m in found))
    ]
    left_out = sum(m.outcome in ("busy", "unreadable") for m in found)
    if left_out:
        parts.append(f"{left_out} left out")
    click.echo(f"{counted(len(found), 'experiment')}: {', '.join(parts)}; {target}")


def _blocks(merged: Merged) -> str:
    taken = f"{counted(merged.taken, 'block')}" if merged.taken else "no complete block was missing; the rest is"
    said = f"{taken} taken over"
    if merged.twice:
        said += f"; {counted(merged.twice, 'block')} that both ran count once, the one that began first"
    return said

"""`heapyard claims`: the scoreboard of the literature over the experiments of this machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .consoles import answers, remark

if TYPE_CHECKING:
    from ..model.claim import Judgement
    from ..model.record import Record


@click.command()
@click.argument("experiments", nargs=-1, metavar="[EXPERIMENT]...")
@click.option("--all", "all_", is_flag=True, help="Every experiment, not only the newest of each study.")
@click.option("--json", "json_", is_flag=True, help="Print the claims as JSON.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FOLDER", help="Experiments stored there.")
def command(experiments: tuple[str, ...], all_: bool, json_: bool, output: Path | None) -> None:
    """Hold what the literature says against what was measured here.

    Claims stand in study files. Each holds, does not hold, or cannot be told on this machine, with the evidence. Without
    names: the newest experiment of every study that was run.

    \b
    Examples:
      heapyard run studies/acdc && heapyard claims
      heapyard claims otter --json
    """
    from ..stats.claims import judge_all

    found = [(r, judge_all(r.observations)) for r in _records(experiments, all_, output)]
    found = [(record, judgements) for record, judgements in found if judgements]
    if json_:
        click.echo(json.dumps([_as_object(r, j) for r, j in found], indent=1, ensure_ascii=False))
    elif not found:
        remark("no experiment here has claims; heapyard run studies/acdc makes some")
    else:
        _show(found)


def _records(names: tuple[str, ...], all_: bool, output: Path | None) -> list[Record]:
    """The named experiments, or those with claims, oldest study first; unreadable ones are told and left out."""
    from ..model.errors import HeapyardError
    from ..store import list_records, load_record

    if names:
        return [load_record(name, output) for name in names]
    titles, found = set[str](), []
    for listed in list_records(output):
        if listed.problem or (listed.title in titles and not all_):
            continue
        titles.add(listed.title)
        try:
            found.append(load_record(listed.path))
        except HeapyardError as error:
            remark(error.message)
    return found[::-1]


def _as_object(record: Record, judgements: tuple[Judgement, ...]) -> dict[str, object]:
    return {
        "experiment": record.id,
        "study": record.experiment.title,
        "created": record.created,
        "claims": [asdict(j) for j in judgements],
    }


def _show(found: list[tuple[Record, tuple[Judgement, ...]]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ..report.curve_section import VERDICT_SIGN, tally
    from ..report.terminal_tables import CLAIM_STYLES

    out = answers()
    every = tuple(j for _, judgements in found for j in judgements)
    out.print(Text(f"{tally(every)} ({len(found)} {'study' if len(found) == 1 else 'studies'}).", "bold"))
    for record, judgements in found:
        table = Table(
            box=box.SIMPLE_HEAD, pad_edge=False, title=f"{record.experiment.title} ({record.id})", title_justify="left"
        )
        table.add_column("here", no_wrap=True)
        table.add_column("claim and evidence", ratio=1)
        for j in judgements:
            text = Text(j.claim.text)
            if j.claim.source:
                text.append(f" {j.claim.source}", "dim")
            text.append(f"\n{j.evidence}", "dim")
            table.add_row(Text(f"{VERDICT_SIGN[j.verdict]} {j.verdict}", CLAIM_STYLES[j.verdict]), text)
        out.print(table)

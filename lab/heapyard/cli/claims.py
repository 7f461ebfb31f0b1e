# SPDX-License-Identifier: Apache-2.0
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
    from ..store.records import Listed


@click.command()
@click.argument("experiments", nargs=-1, metavar="[EXPERIMENT]...")
@click.option("--all", "all_", is_flag=True, help="Every experiment, not only the newest of each study.")
@click.option("--json", "json_", is_flag=True, help="Print the claims as JSON.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FOLDER", help="Experiments stored there.")
def command(experiments: tuple[str, ...], all_: bool, json_: bool, output: Path | None) -> None:
    """Compare what the literature says with what was measured here.

    Study files hold the claims. Each claim holds, does not hold, or cannot be told on this machine; the evidence says why.
    Without names, this shows the newest finished experiment of every study.

    \b
    Examples:
      heapyard run studies/acdc && heapyard claims
      heapyard claims otter --json
    """
    from ..stats.claims.judge import judge_all

    found = [(r, judge_all(r.observations)) for r in _records(experiments, all_, output)]
    found = [(record, judgements) for record, judgements in found if judgements]
    if json_:
        from ..report.json_answer import safe

        click.echo(json.dumps([safe(_as_object(r, j)) for r, j in found], indent=1, ensure_ascii=False))
    elif found:
        _show(found)
    elif experiments:
        remark("no claim stands in the study of what you named; heapyard show gives its answer")
    else:
        remark("no experiment here has claims; heapyard run studies/acdc makes some")


def _records(names: tuple[str, ...], all_: bool, output: Path | None) -> list[Record]:
    """The named experiments, or those that are stored, oldest first; unreadable ones are told and left out.

    Of a study that was run several times the newest that came to its end counts, else the newest.
    """
    from ..model.errors import HeapyardError
    from ..store import list_records, load_record

    if names:
        return [load_record(name, output) for name in names]
    stored = [listed for listed in list_records(output) if not listed.problem]
    chosen: dict[str, Listed] = {}
    for listed in stored:  # the newest first
        known = chosen.get(listed.title)
        if known is None or (known.status != "finished" and listed.status == "finished"):
            chosen[listed.title] = listed
    found = []
    for listed in reversed(stored if all_ else [one for one in stored if chosen[one.title] is one]):
        try:
            found.append(load_record(listed.path))
        except HeapyardError as error:
            remark(error.message)
    return found


def _as_object(record: Record, judgements: tuple[Judgement, ...]) -> dict[str, object]:
    return {
        "experiment": record.id,
        "study": record.experiment.title,
        "created": record.created,
        "claims": [asdict(j) for j in judgements],
    }


def _show(found: list[tuple[Record, tuple[Judgement, ...]]]) -> None:
    from rich.text import Text

    from ..report.claims import tally
    from ..report.terminal import print_claims
    from ..report.words import plain

    out = answers()
    every = tuple(j for _, judgements in found for j in judgements)
    out.print(Text(f"{len(found)} {'study' if len(found) == 1 else 'studies'}: {tally(every)}.", "bold"))
    for record, judgements in found:
        out.print()
        out.print(Text(f"{plain(record.experiment.title)} ({record.id})", "bold"))
        print_claims(out, judgements)

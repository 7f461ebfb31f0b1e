# SPDX-License-Identifier: Apache-2.0
"""`heapyard report`: the HTML page of an experiment."""

from __future__ import annotations

from pathlib import Path

import click

from .options import preference, preference_options


@click.command()
@click.argument("experiment", default="last", metavar="[EXPERIMENT]")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write it there.")
@click.option("--open", "open_", is_flag=True, help="Open it in the browser.")
@preference_options
@click.option("--output", type=click.Path(path_type=Path), metavar="FOLDER", help="Experiments stored there.")
def command(
    experiment: str, html: Path | None, open_: bool, prefer: str, memory_limit: float | None, output: Path | None
) -> None:
    """Write an experiment's HTML report: one file that needs no network.

    Without --html the report lies beside the experiment's record. Heapyard prints its path.
    """
    from ..stats.analyse import analyse
    from ..store import load_record
    from .answer import REPORT_NAME, write_html
    from .capacity_answer import is_search, write_capacity_page

    record = load_record(experiment, output)
    where = html or record.path / REPORT_NAME
    if is_search(record):
        path = write_capacity_page(where, record)
    else:
        path = write_html(where, analyse(record.observations), record, preference(prefer, memory_limit))
    click.echo(path)
    if open_:
        import webbrowser

        if not webbrowser.open(path.absolute().as_uri()):
            from .consoles import remark

            remark("there is no browser to open it with")

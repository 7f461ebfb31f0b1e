# SPDX-License-Identifier: Apache-2.0
"""`heapyard export`: an experiment's data for other tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from ..model.errors import UsageError

if TYPE_CHECKING:
    from ..model.record import Record


@click.command()
@click.argument("experiment", default="last", metavar="[EXPERIMENT]")
@click.option("--csv", "format_", flag_value="csv", help="Comma-separated values, long form.")
@click.option("--jsonl", "format_", flag_value="jsonl", help="JSON Lines, long form.")
@click.option("--parquet", "format_", flag_value="parquet", help="Parquet, long form; needs -o.")
@click.option("--pyperf", "format_", flag_value="pyperf", help="pyperf JSON of the counted trials.")
@click.option("--dat", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER", help="The scalloc artifact's files.")
@click.option("--suite", metavar="NAME", help="With --dat: every experiment of the newest run of a folder, such as scalloc.")
@click.option("--treatment", metavar="LABEL", help="With --pyperf: this treatment only, as pyperf compare_to wants it.")
@click.option(
    "-o", "file", type=click.Path(path_type=Path), metavar="FILE", help="Write there (default: standard output)."
)
@click.option("--output", type=click.Path(path_type=Path), metavar="FOLDER", help="Experiments stored there.")
def command(
    experiment: str,
    format_: str | None,
    dat: Path | None,
    suite: str | None,
    treatment: str | None,
    file: Path | None,
    output: Path | None,
) -> None:
    """Write an experiment's data as CSV, JSON Lines, Parquet, pyperf JSON, or in the layouts of the scalloc artifact.

    Long form: one row per trial and metric, values in the metric's own unit (s, B, 1); docs/guide.md lists the columns.

    \b
    Examples:
      heapyard export otter --csv > otter.csv
      heapyard export otter --parquet -o otter.parquet
      heapyard export otter --pyperf --treatment jemalloc -o jemalloc.json
      heapyard export --suite scalloc --dat data
    """
    from ..store import load_record

    if dat is not None and (format_ or treatment or file):
        raise UsageError("--dat writes files of its own and goes with no other format")
    if suite is not None and dat is None:
        raise UsageError("--suite goes with --dat only")
    if dat is not None:
        _write_dat(dat, experiment, suite, output)
        return
    if format_ is None:
        raise UsageError("say which format: --csv, --jsonl, --parquet, --pyperf or --dat")
    if treatment is not None and format_ != "pyperf":
        raise UsageError("--treatment goes with --pyperf only; the other formats have a column for it")
    parquet = file if format_ == "parquet" else None
    if format_ == "parquet" and parquet is None:
        raise UsageError("Parquet is not text; name a file with -o")
    record = load_record(experiment, output)
    if treatment is not None and treatment not in (t.label for t in record.experiment.treatments):
        from .suggest import unknown

        labels = [t.label for t in record.experiment.treatments]
        raise unknown("treatment", treatment, labels, f"This experiment has {', '.join(labels)}.")
    if parquet is not None:
        from ..store.exports.long_form import write_parquet

        write_parquet(record, parquet)
    elif file is None:
        _write(record, format_, sys.stdout, treatment)
    else:
        with file.open("w", encoding="utf-8", newline="") as out:
            _write(record, format_, out, treatment)


def _write_dat(folder: Path, experiment: str, suite: str | None, output: Path | None) -> None:
    """The artifact's files of one experiment, or of all of a suite that have such a layout; their paths are printed."""
    from ..model.errors import HeapyardError
    from ..store import load_record
    from ..store.exports.dat import write_dat
    from .consoles import remark
    from .suite import newest_suite

    for found in [experiment] if suite is None else [m.path for m in newest_suite(suite, output)]:
        try:
            written = write_dat(load_record(found, output), folder)
        except HeapyardError as error:
            if suite is None:
                raise
            remark(f"left out: {error.message}")
            continue
        for path in written:
            click.echo(path)


def _write(record: Record, format_: str, out: TextIO, treatment: str | None) -> None:
    from ..store.exports.long_form import write_csv, write_jsonl
    from ..store.exports.pyperf import write_pyperf

    if format_ == "csv":
        write_csv(record, out)
    elif format_ == "jsonl":
        write_jsonl(record, out)
    else:
        write_pyperf(record, out, treatment)

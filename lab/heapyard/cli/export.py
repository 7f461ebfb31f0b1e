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
@click.option("--treatment", metavar="LABEL", help="With --pyperf: this treatment only, as pyperf compare_to wants it.")
@click.option(
    "-o", "file", type=click.Path(path_type=Path), metavar="FILE", help="Write there (default: standard output)."
)
@click.option("--output", type=click.Path(path_type=Path), metavar="FOLDER", help="Experiments stored there.")
def command(
    experiment: str,
    format_: str | None,
    dat: Path | None,
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
      heapyard export otter --dat data && gnuplot -e "data='data'" studies/plots/acdc.gp
    """
    from ..store import load_record

    if dat is not None and (format_ or treatment or file):
        raise UsageError("--dat writes files of its own and goes with no other format")
    if dat is not None:
        from ..store.export_dat import write_dat

        for path in write_dat(load_record(experiment, output), dat):
            click.echo(path)
        return
    if format_ is None:
        raise UsageError("say which format: --csv, --jsonl, --parquet, --pyperf or --dat")
    if treatment is not None and format_ != "pyperf":
        raise UsageError("--treatment goes with --pyperf only; the other formats have a column for it")
    if format_ == "parquet" and file is None:
        raise UsageError("Parquet is not text; name a file with -o")
    record = load_record(experiment, output)
    if treatment is not None and treatment not in (t.label for t in record.experiment.treatments):
        from .suggest import unknown

        labels = [t.label for t in record.experiment.treatments]
        raise unknown("treatment", treatment, labels, f"This experiment has {', '.join(labels)}.")
    if format_ == "parquet":
        from ..store.export import write_parquet

        write_parquet(record, file)
    elif file is None:
        _write(record, format_, sys.stdout, treatment)
    else:
        with file.open("w", encoding="utf-8", newline="") as out:
            _write(record, format_, out, treatment)


def _write(record: Record, format_: str, out: TextIO, treatment: str | None) -> None:
    from ..store.export import write_csv, write_jsonl
    from ..store.export_pyperf import write_pyperf

    if format_ == "csv":
        write_csv(record, out)
    elif format_ == "jsonl":
        write_jsonl(record, out)
    else:
        write_pyperf(record, out, treatment)

"""`heapyard run`: carry out the experiment that a study file describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .options import manner, manner_options


@click.command()
@click.argument("study", type=click.Path(path_type=Path), metavar="STUDY.toml")
@click.option("--plan", is_flag=True, help="Say what would be run, and stop.")
@manner_options
def command(study: Path, plan: bool, **options: Any) -> int:
    """Carry out the experiment that a study file describes.

    docs/guide.md explains the fields; studies/ holds examples, such as studies/quick.toml.

    \b
    Examples:
      heapyard run studies/quick.toml
      heapyard run --plan studies/arenas.toml
    """
    from ..catalog.study import read_study
    from .assemble import assemble
    from .conduct import conduct

    experiment = assemble(read_study(study))
    if plan:
        click.echo(f"{experiment.title}: {', '.join(p.name for p in experiment.programs)}")
        for treatment in experiment.treatments:
            click.echo(
                f"  {treatment.label}  {treatment.allocator.version}  {treatment.allocator.library or ''}".rstrip()
            )
        return 0
    return conduct(experiment, manner(**options))

# SPDX-License-Identifier: Apache-2.0
"""`heapyard run`: carry out the experiment that a study file describes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..model import places
from ..model.errors import UsageError
from ..model.fleet import Fleet
from .consoles import remark
from .fleet_options import elsewhere, fleet_options, taken
from .simulated_options import simulated_by, simulated_options
from .options import Duration, change_system_option, manner, manner_options

if TYPE_CHECKING:
    from ..catalog.study import Study
    from ..model.experiment import Experiment


@click.command()
@click.argument("study", type=click.Path(path_type=Path), metavar="STUDY.toml|FOLDER")
@click.option("--scale", metavar="NAME", help="The scale of the study, such as quick or paper.")
@click.option("--allocators", multiple=True, metavar="NAME,...", help="Compare these instead of the study's own.")
@click.option(
    "--allocator", "libraries", multiple=True, metavar="NAME=LIBRARY", help="Add a malloc library of your own."
)
@click.option("--blocks", type=click.IntRange(1), metavar="N", help="Run exactly this many blocks.")
@click.option("--budget", type=Duration(), help="Time for the whole experiment.")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Seed of all random orders.")
@change_system_option
@click.option("--plan", is_flag=True, help="Say what the study would run, and stop.")
@click.option("--resume", is_flag=True, help="Of a folder: continue its newest run.")
@simulated_options
@fleet_options
@manner_options
def command(
    study: Path,
    scale: str | None,
    allocators: tuple[str, ...],
    libraries: tuple[str, ...],
    blocks: int | None,
    budget: float | None,
    seed: int | None,
    change_system: bool,
    plan: bool,
    resume: bool,
    machine: str | None,
    cores: int | None,
    **options: Any,
) -> int:
    """Carry out the experiment that a study file describes, or every study of a folder.

    docs/guide.md explains the fields. studies/ holds examples, and the experiments of the literature. The studies of a
    folder run one after the other; one page shows all of them.

    \b
    Examples:
      heapyard run studies/quick.toml
      heapyard run studies/acdc/deallocation-delay.toml --scale paper
      heapyard run --plan studies/acdc/false-sharing.toml
      heapyard run studies/acdc/locality.toml --allocator mine=./libmine.so
      heapyard run studies/acdc --scale quick
      heapyard run studies/scalloc/threadtest.toml --machine server --cores 64
      heapyard run studies/acdc/locality.toml --scale paper --fleet slurm --nodes 10
    """
    from ..catalog.study import read_study
    from ..api.assemble import assemble
    from ..api.simulated_study import as_simulated_study, machine_of
    from .conduct import conduct

    study, away, fleet = places.studies(study), elsewhere(options), taken(options)
    simulated = simulated_by(machine, cores)
    how = manner(**options)

    def read(path: Path, at: str | None) -> Study:
        settings = {"blocks": blocks, "budget": budget, "seed": seed, "change_system": change_system or None}
        found = _changed(read_study(path, at, elsewhere=away or machine is not None), allocators, libraries, **settings)
        where = {"fleet": fleet(found.settings.get("fleet", Fleet())), "simulated": simulated(machine_of(found))}
        return as_simulated_study(replace(found, settings={**found.settings, **where}))

    if study.is_dir():
        from .suite import run_suite, studies_in

        members = studies_in(study, scale, read)
        if not plan:
            return run_suite(study, members, scale, how, resume=resume)
        for member in members:
            _show_plan(assemble(member.study, to_run=False, say=remark))
        return 0
    if resume:
        raise UsageError("--resume is for a folder of studies", remedy="One experiment goes on with: heapyard resume")
    experiment = assemble(read(study, scale), to_run=not plan, say=remark)
    if plan:
        _show_plan(experiment)
        return 0
    return conduct(experiment, how)


def _changed(study: Study, allocators: tuple[str, ...], libraries: tuple[str, ...], **settings: Any) -> Study:
    """The study with what the command line says instead of the file."""
    from ..catalog.allocators import parse_allocator_option
    from ..catalog.study import Library
    from .naming import split_list

    own = {name: Library(path) for name, path in map(parse_allocator_option, libraries)}
    named = split_list(allocators) or study.allocators
    given = {name: value for name, value in settings.items() if value is not None}
    return replace(
        study,
        allocators=(*named, *own) if named else (),
        if_installed=() if allocators else study.if_installed,
        libraries={**study.libraries, **own},
        settings={**study.settings, **given},
    )


def _show_plan(experiment: Experiment) -> None:
    settings = experiment.settings
    treatments, programs = len(experiment.treatments), len(experiment.programs)
    each = f"{settings.blocks} blocks each" if settings.blocks is not None else "blocks as the noise calls for"
    click.echo(f"{experiment.title}: {programs} workloads, {treatments} treatments with the A/A control, {each}")
    if settings.blocks is not None:
        warm_up = "" if settings.simulated.wanted else f" and {programs} to warm up"
        click.echo(f"  {programs * treatments * settings.blocks} trials{warm_up}")
    click.echo("workloads:")
    for program in experiment.programs:
        click.echo(f"  {program.name}")
    click.echo("treatments:")
    for treatment in experiment.treatments:
        allocator = treatment.allocator
        more = f"  {' '.join(treatment.arguments)}" if treatment.arguments else ""
        click.echo(f"  {treatment.label}  {allocator.version}  {allocator.library or ''}{more}".rstrip())

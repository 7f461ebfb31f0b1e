# SPDX-License-Identifier: Apache-2.0
"""`heapyard plan`: what a study would run, how long that takes, and which differences it can find."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from ..model import places
from ..model.errors import HeapyardError, UsageError
from .consoles import answers, remark
from .options import Duration, change_system_option

if TYPE_CHECKING:
    from ..model.experiment import Experiment, Settings
    from ..model.record import Record
    from .plan_fleet import FleetPlan

PILOT_BLOCKS = 4


@dataclass(frozen=True, slots=True)
class Forecast:
    """One workload: seconds of a trial, noise of one trial beyond its block, blocks, and what these can find.

    Differences are ratios minus one that a paired test of one allocator against the baseline, corrected for the number
    of allocators, finds with 80 % probability; None without a pilot.
    """

    workload: str
    blocks: int | None
    trial_seconds: float | None = None
    time_noise: float | None = None
    memory_noise: float | None = None
    time_difference: float | None = None
    memory_difference: float | None = None


@click.command()
@click.argument("study", type=click.Path(path_type=Path, dir_okay=False), metavar="STUDY.toml")
@click.option("--scale", metavar="NAME", help="The scale of the study, such as quick or paper.")
@click.option(
    "--pilot/--no-pilot", default=True, help="Measure the noise first, the baseline against itself (default)."
)
@change_system_option
@click.option("--fleet", type=click.IntRange(min=1), metavar="NODES", help="Simulate the study on so many machines.")
@click.option(
    "--from", "source", metavar="EXPERIMENT", help="With --fleet: go by the times of this one (default: the newest that fits)."
)
@click.option("--job-start", type=Duration(), help="With --fleet: what a job takes to start (default: as measured).")
@click.option("--seed", type=click.IntRange(min=0), help="With --fleet: of the simulation.")
@click.option("--json", "json_", is_flag=True, help="Print the plan as JSON.")
def command(
    study: Path,
    scale: str | None,
    pilot: bool,
    change_system: bool,
    fleet: int | None,
    source: str | None,
    job_start: float | None,
    seed: int | None,
    json_: bool,
) -> None:
    """Say what a study would run, how long it would take, and which differences it could find.

    A short pilot runs the baseline against itself on every workload. Heapyard keeps nothing of it. With --fleet,
    an earlier experiment of the same workloads takes the pilot's place, and nothing runs.

    \b
    Examples:
      heapyard plan studies/acdc/locality.toml
      heapyard plan studies/quick.toml --no-pilot
      heapyard plan studies/quick.toml --fleet 30 --job-start 2s
    """
    from ..catalog.study import read_study
    from ..api.assemble import assemble
    from ..api.simulated_study import machine_of

    if fleet is None:
        _refuse({"--from": source, "--job-start": job_start, "--seed": seed})
    read = read_study(places.studies(study), scale)
    if machine_of(read).wanted:
        raise UsageError(f"{study} runs on a simulated machine, where seconds of this one say nothing of precision",
                         remedy=f"heapyard run --plan {study} says what it would run.")
    allowed = replace(read, settings={**read.settings, "change_system": change_system})
    experiment = assemble(allowed, to_run=pilot and fleet is None, say=remark)
    if fleet is None:
        forecasts = _forecasts(experiment, _pilot(experiment)) if pilot else _without_pilot(experiment)
        simulated = None
    else:
        forecasts, simulated = _on_a_fleet(
            experiment, fleet, study, source=source, pilot=pilot, job_start=job_start, seed=seed or 0
        )
    if json_:
        found = _as_object(experiment, forecasts)
        if simulated is not None:
            from .plan_fleet import as_object

            found["fleet"] = as_object(simulated)
        click.echo(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        _show(experiment, forecasts, simulated)


def _refuse(given: dict[str, object]) -> None:
    """UsageError for an option that says nothing without a fleet."""
    for option, value in given.items():
        if value is not None:
            raise UsageError(f"{option} is for a fleet", remedy=f"Say how many machines: --fleet 10 {option} ...")


def _on_a_fleet(
    experiment: Experiment,
    nodes: int,
    study: Path,
    *,
    source: str | None,
    pilot: bool,
    job_start: float | None,
    seed: int,
) -> tuple[list[Forecast], FleetPlan]:
    """The forecasts and the simulation, from an earlier experiment if there is one, else from a pilot if that is allowed."""
    from .plan_fleet import earlier_record, fleet_plan, nothing_to_go_by

    if experiment.settings.limits:
        raise UsageError(f"{study} searches for capacities; how many blocks that takes is not known beforehand")
    record = earlier_record(experiment, source, study)
    if record is not None:
        words = f"experiment {record.id}"
    elif pilot:
        record, words = _pilot(experiment), f"a pilot of {PILOT_BLOCKS} blocks on this machine"
    else:
        raise nothing_to_go_by(study)
    forecasts = _forecasts(experiment, record)
    blocks = {f.workload: f.blocks or 0 for f in forecasts}
    return forecasts, fleet_plan(experiment, record, blocks, nodes, source=words, job_start=job_start, seed=seed)


def _without_pilot(experiment: Experiment) -> list[Forecast]:
    return [Forecast(p.name, experiment.settings.blocks) for p in experiment.programs]


def _pilot(experiment: Experiment) -> Record:
    """PILOT_BLOCKS blocks of baseline and control, of which nothing stays on disk."""
    from .. import store
    from ..execute.experiment import carry_out
    from ..execute.host_memory import readying
    from ..execute.loop.signals import stop_on_signals
    from ..execute.scratch import ScratchFolder
    from ..execute.trial import run_trial
    from .progress import progress_for

    settings = experiment.settings
    small = replace(
        experiment,
        title="a pilot",
        settings=replace(settings, blocks=PILOT_BLOCKS, budget=None),
        treatments=tuple(t for t in experiment.treatments if t.label == settings.baseline or t.role == "control"),
        figures=(),
        claims=(),
    )
    lock = store.MachineLock()
    lock.acquire("a pilot")
    try:
        with ScratchFolder() as folder, stop_on_signals() as stop:
            with store.create(small, folder) as journal, progress_for(small, quiet=False) as progress:
                ending = carry_out(small, journal, run_trial, watcher=progress, stop=stop, make_ready=readying())
                if ending == "interrupted":
                    raise KeyboardInterrupt
            return store.load_record(journal.folder)
    finally:
        lock.release()


def _forecasts(experiment: Experiment, record: Record) -> list[Forecast]:
    """What follows from the noise of the baseline in a pilot, or in an earlier experiment.

    HeapyardError when the baseline was not measured.
    """
    from ..stats.analyse import analyse

    settings, others = experiment.settings, len(experiment.treatments) - 2
    analysis = analyse(record.observations)
    found = []
    for program in experiment.programs:
        trials = [t for t in record.trials if t.workload == program.name and t.counted]
        time, memory = (analysis.cell(program.name, metric) for metric in analysis.primary)
        if not trials or time is None:
            raise HeapyardError(f"{program.name} could not be measured under {settings.baseline}")
        found.append(_forecast(experiment, program.name, trials, time, memory, max(others, 1)))
    return found


def _forecast(
    experiment: Experiment, workload: str, trials: list[Any], time: Any, memory: Any | None, comparisons: int
) -> Forecast:
    from ..design.power import blocks_for, detectable_difference

    settings = experiment.settings
    seconds = median(t.ended - t.started for t in trials)
    wanted = settings.blocks
    if wanted is None:
        needed = blocks_for(settings.precision, time.residual_cv, comparisons=comparisons) or settings.max_blocks
        affordable = settings.max_blocks
        if settings.budget is not None:
            affordable = int(settings.budget / (seconds * len(experiment.treatments) * len(experiment.programs)))
        wanted = max(min(needed, affordable, settings.max_blocks), settings.pilot_blocks)

    def findable(cell: Any | None) -> float | None:
        return None if cell is None else detectable_difference(cell.residual_cv, wanted, comparisons=comparisons)

    return Forecast(
        workload,
        wanted,
        seconds,
        time.residual_cv,
        memory.residual_cv if memory else None,
        findable(time),
        findable(memory),
    )


def _show(experiment: Experiment, forecasts: list[Forecast], simulated: FleetPlan | None = None) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ..model.metrics import metric_named
    from ..model.units import format_duration
    from ..report.words import percent

    settings, treatments = experiment.settings, experiment.treatments
    out = answers()
    click.echo(f"{experiment.title}")
    click.echo(f"Treatments, each once per block in a fresh random order ({len(treatments)}):")
    for treatment in treatments:
        allocator = treatment.allocator
        more = f" {' '.join(treatment.arguments)}" if treatment.arguments else ""
        click.echo(f"  {treatment.label}: {allocator.name} {allocator.version}{more}")
    time, memory = metric_named(settings.time_metric).title, metric_named(settings.memory_metric).title
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("workload", overflow="fold")
    for heading in ("blocks", "trials", "one trial", "noise", "time", "memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    for f in forecasts:
        blocks = "?" if f.blocks is None else str(f.blocks)
        trials = "?" if f.blocks is None else str(f.blocks * len(treatments))
        measured = [
            "?" if f.trial_seconds is None else format_duration(f.trial_seconds),
            *("?" if v is None else percent(v) for v in (f.time_noise, f.time_difference, f.memory_difference)),
        ]
        table.add_row(Text(f.workload), blocks, trials, *measured)
    out.print(table)
    if any(f.trial_seconds is None for f in forecasts):
        remark("without a pilot neither the duration nor the differences that can be found are known")
        return
    if simulated is not None:
        from .plan_fleet import show

        show(simulated)
    else:
        _show_duration(settings, forecasts, len(treatments))
    out.print(
        Text(
            f"Noise: of one trial's {time} beyond its block. Time and memory: the smallest difference in {time} and in "
            f"{memory} between an allocator and {settings.baseline}, on that workload alone, that this plan finds with 80 % "
            f"probability at {100 * settings.confidence:g} % confidence, corrected for {max(len(treatments) - 2, 1)} "
            "comparisons."
        )
    )


def _show_duration(settings: Settings, forecasts: list[Forecast], treatments: int) -> None:
    """On this machine alone."""
    from rich.text import Text

    from ..model.units import format_duration

    total = sum((f.trial_seconds or 0) * ((f.blocks or 0) * treatments + 1) for f in forecasts)
    limit = f", at most {format_duration(settings.budget)} by its budget" if settings.budget is not None else ""
    if settings.looks:
        limit += ", less where something is settled earlier"
    answers().print(
        Text(f"Expected duration: {format_duration(total)}{limit}, if the others are as fast as {settings.baseline}.")
    )


def _as_object(experiment: Experiment, forecasts: list[Forecast]) -> dict[str, Any]:
    settings = experiment.settings
    return {
        "title": experiment.title,
        "baseline": settings.baseline,
        "time": settings.time_metric,
        "memory": settings.memory_metric,
        "treatments": [t.label for t in experiment.treatments],
        "workloads": [{**asdict(f), "levels": p.levels} for f, p in zip(forecasts, experiment.programs, strict=True)],
    }

# SPDX-License-Identifier: Apache-2.0
"""`heapyard show`: the answer of an experiment, or what lies behind a number of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..model.errors import UsageError
from ..model.limits import ASKED
from .consoles import answers
from .options import preference, preference_options

if TYPE_CHECKING:
    from ..model.preference import Preference
    from ..model.record import Record, TrialRecord


@click.command()
@click.argument("experiment", default="last", metavar="[EXPERIMENT]")
@click.option("--trials", is_flag=True, help="Every trial in the order they ran.")
@click.option(
    "--trial", type=int, metavar="N", help="One trial: its command line, the library that served malloc, guards, every number."
)
@click.option("--events", is_flag=True, help="Events of the experiment: repeated blocks, interruptions, the plan.")
@click.option("--environment", is_flag=True, help="The machine, as it was when the experiment began.")
@click.option(
    "-v", "--verbose", is_flag=True, help="The answer with its details: tables, every metric, figures, claims, ranks."
)
@click.option("--json", "json_", is_flag=True, help="The answer as JSON.")
@click.option("--markdown", is_flag=True, help="The answer as Markdown.")
@click.option("--svg", is_flag=True, help="The answer as an SVG picture of a terminal.")
@preference_options
@click.option("--output", type=click.Path(path_type=Path), metavar="FOLDER", help="Experiments stored there.")
def command(
    experiment: str,
    trials: bool,
    trial: int | None,
    events: bool,
    environment: bool,
    verbose: bool,
    json_: bool,
    markdown: bool,
    svg: bool,
    prefer: str,
    memory_limit: float | None,
    output: Path | None,
) -> None:
    """Show an experiment's answer, or the trials behind a number.

    \b
    Examples:
      heapyard show
      heapyard show otter --trials
      heapyard show otter --trial 17
    """
    from ..store import load_record

    wanted = [trials, trial is not None, events, environment, verbose, json_, markdown, svg]
    if sum(wanted) > 1:
        raise UsageError(
            "give one of --trials, --trial, --events, --environment, --verbose, --json, --markdown and --svg"
        )
    record = load_record(experiment, output)
    if trial is not None:
        _show_trial(record, trial)
    elif trials:
        _show_trials(record)
    elif events:
        for event in record.events:
            click.echo(f"{event.at:10.1f} s  {event.kind}: {event.text}")
    elif environment:
        machines = {"nodes": record.nodes} if record.nodes else {}
        click.echo(json.dumps({**record.environment, **machines}, indent=1, ensure_ascii=False))
    else:
        _show_answer(record, json_, markdown, svg, verbose, preference(prefer, memory_limit))


def _show_answer(
    record: Record, json_: bool, markdown: bool, svg: bool, verbose: bool, wanted: Preference
) -> None:
    from ..stats.analyse import analyse
    from .answer import show_answer
    from .capacity_answer import is_search, show_capacities

    if is_search(record) and not (markdown or svg):
        show_capacities(record, json=json_)
        return
    analysis = analyse(record.observations)
    if markdown:
        from ..report.markdown import markdown as as_markdown

        click.echo(as_markdown(analysis, record, wanted))
    elif svg:
        from ..report.picture import terminal_svg

        click.echo(terminal_svg(analysis, record, preference=wanted), nl=False)
    else:
        show_answer(record, analysis, json=json_, verbose=verbose, preference=wanted)


def _show_trials(record: Record) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ..model.metrics import metric_named
    from ..model.units import format_value

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("trial", "block"):
        table.add_column(heading, justify="right")
    if record.nodes:
        table.add_column("machine", no_wrap=True)
    for heading in ("stage", "program", "allocator", "status"):
        table.add_column(heading)
    settings = record.observations.settings
    rate = [ASKED.name] if settings.limits else []
    shown = [metric_named(name) for name in (*rate, settings.time_metric, settings.memory_metric)]
    for metric in shown:
        table.add_column(metric.title, justify="right", no_wrap=True)
    for trial in record.trials:
        values = [
            format_value(trial.metrics[m.name], m.unit) if m.name in trial.metrics else ""
            for m in shown
        ]
        table.add_row(
            str(trial.id),
            str(trial.block),
            *((Text(trial.node or "the lab's own"),) if record.nodes else ()),
            trial.stage,
            Text(trial.workload),
            Text(trial.treatment),
            _status(trial),
            *values,
        )
    answers().print(table)


def _status(trial: TrialRecord) -> str:
    if trial.status == "failed":
        return trial.failure or "failed"
    if trial.status == "ok" and not trial.counted:
        return "ok, not counted"
    return "interrupted" if trial.status == "started" else trial.status


def _show_trial(record: Record, number: int) -> None:
    from ..model.metrics import metric_named
    from ..model.units import format_value
    from ..store.records import trial_detail
    from .simulated_trial import lines_in_words, machine_in_words

    trial = next((t for t in record.trials if t.id == number), None)
    if trial is None:
        ran = f"those that ran are {record.trials[0].id} to {record.trials[-1].id}" if record.trials else "none ran"
        raise UsageError(f"experiment {record.id} has no trial {number}; {ran}")
    treatment = next(t for t in record.experiment.treatments if t.label == trial.treatment)
    allocator = treatment.allocator
    detail = trial_detail(record.path, trial.id)
    moved: Any = detail.pop("lines", [])
    simulated: Any = detail.pop("simulated", None)
    lines = [
        ("experiment", record.id),
        ("program", trial.workload),
        ("allocator", trial.treatment),
        ("library", f"{allocator.library} {allocator.version}" if allocator.library else "none injected"),
        ("sha256", allocator.sha256),
        ("build-id", allocator.build_id),
        ("served by", trial.provider),
        ("block", f"{trial.block} ({trial.stage}), position {trial.position + 1}, attempt {trial.attempt + 1}"),
        ("machine", trial.node),
        ("began", f"{trial.started:.3f} s after the experiment, ended {trial.ended - trial.started:.3f} s later"),
        ("status", _status(trial)),
        ("reason", trial.reason),
        ("exit code", "" if trial.exit_code is None else str(trial.exit_code)),
        ("signal", "" if trial.signal is None else str(trial.signal)),
        ("answer", trial.answer),
        ("guards tripped", "; ".join(trial.tripped)),
        *((f"level of {name}", level) for name, level in treatment.levels.items()),
        *((f"guard {name}", f"{value:.4g}") for name, value in trial.guards.items()),
        ("series", f"{record.path / 'series' / trial.series}.zst" if trial.series else ""),
        ("result", f"{record.path / 'results' / trial.result}.zst" if trial.result else ""),
        *(
            (name, json.dumps(value) if isinstance(value, (list, dict)) else str(value))
            for name, value in detail.items()
        ),
        ("simulated", machine_in_words(simulated) if simulated else ""),
    ]
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        if value:
            click.echo(f"{name:{width}}  {value}")
    click.echo(f"\n{trial.command_line}\n")
    for name, response in trial.metrics.items():
        metric = metric_named(name)
        exact = f"{response!r} {metric.unit}" if metric.unit != "1" else f"{response:.17g}"
        click.echo(f"{metric.title:28}  {format_value(response, metric.unit):>14}  {exact}")
    if moved:
        click.echo("\nsimulated lines that moved between cores, and who writes them:")
        for line in lines_in_words(moved, trial.metrics.get("simulated_transfers", 0.0)):
            click.echo(f"  {line}")
    if trial.stderr_tail:
        click.echo(f"\nthe end of its standard error:\n{trial.stderr_tail.rstrip()}")

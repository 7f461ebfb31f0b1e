# SPDX-License-Identifier: Apache-2.0
"""`heapyard plan --fleet N`: what a study would take on the nodes of a fleet, from trial times that were measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from ..model.errors import UsageError
from ..model.units import counted, format_duration
from .consoles import answers

if TYPE_CHECKING:
    from ..design.fleet_plan import FleetForecast
    from ..model.experiment import Experiment
    from ..model.record import Record

SHOWN_FROM = 2.0  # seconds of simulation before its progress is shown
WORTH = 0.9  # more nodes are worth naming where they shorten the run to this share or less


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """What was simulated, and from what: `source` in words, `assumed` by sentence."""

    nodes: int
    source: str
    job_start: float
    repeated: float  # share of attempts
    blocks: int  # the warm-up apart
    widest: int  # blocks of the largest stage: more nodes would have nothing to do
    sizes: tuple[FleetForecast, ...]
    assumed: tuple[str, ...]

    @property
    def wanted(self) -> FleetForecast:
        return next(f for f in self.sizes if f.nodes == self.nodes)


def earlier_record(experiment: Experiment, reference: str | None, study: Path) -> Record | None:
    """The experiment to go by: the one that is named, else the newest in the results that measured all workloads.

    None where there is none. UsageError when the named one lacks a workload.
    """
    from ..model.errors import HeapyardError
    from ..store import list_records, load_record

    if reference is not None:
        record = load_record(reference)
        missing = _unmeasured(experiment, record)
        if missing:
            raise UsageError(
                f"experiment {record.id} has not measured {', '.join(missing)} as {study} runs it",
                remedy="Name another with --from, or leave it out.",
            )
        return record
    names = {p.name for p in experiment.programs}
    for listed in list_records():
        if names <= set(listed.programs) and listed.done:
            try:
                record = load_record(listed.path)
            except HeapyardError:
                continue  # heapyard results lists it with what is wrong with it
            if not _unmeasured(experiment, record):
                return record
    return None


def _unmeasured(experiment: Experiment, record: Record) -> list[str]:
    """Workloads on which the record has no complete block with the baseline, or that were another command there."""
    baseline = experiment.settings.baseline
    counted_ = {t.workload for t in record.trials if t.counted and t.treatment == baseline}
    there = {p.name: p for p in record.experiment.programs}
    return [p.name for p in experiment.programs if p.name not in counted_ or _words(there[p.name]) != _words(p)]


def _words(program: Any) -> tuple[object, ...]:
    """What makes two workloads the same, wherever the executable lies."""
    return (Path(program.command[0]).name, *program.command[1:]) if program.command else ()


def nothing_to_go_by(study: Path) -> UsageError:
    return UsageError(
        f"no stored experiment has measured all workloads of {study}: there is nothing to go by",
        remedy=f"Measure them once: heapyard run {study}; or let plan measure a pilot: leave out --no-pilot.",
    )


def fleet_plan(
    experiment: Experiment,
    record: Record,
    blocks: dict[str, int],
    nodes: int,
    *,
    source: str,
    job_start: float | None,
    seed: int,
) -> FleetPlan:
    """Simulate the study on `nodes` nodes and on fewer and more. `blocks` by workload; times are those of `record`."""
    from ..design.fleet_plan import COURSES, forecasts, sizes_up_to, stages_of
    from ..design.trial_times import trial_times
    from .status_line import StatusLine

    settings = experiment.settings
    times = trial_times(record.trials, settings.baseline)
    start = job_start if job_start is not None else times.job_start
    stages = stages_of(experiment, blocks)
    sizes = sizes_up_to(nodes, stages)
    with StatusLine() as line:

        def done(course: int) -> None:
            took = monotonic() - line.began
            if took > SHOWN_FROM:
                left = took / course * (COURSES - course)
                line.tell(f"simulated {course} of {COURSES} runs, {format_duration(left)} left")

        found = forecasts(experiment, stages, times, sizes, job_start=start or 0.0, seed=seed, done=done)
    return FleetPlan(
        nodes,
        source,
        start or 0.0,
        times.repeated,
        sum(len(stage) for stage in stages[1:]),
        max(map(len, stages)),
        tuple(found),
        tuple(_assumed(experiment, record, times.labels, start is None)),
    )


def _assumed(experiment: Experiment, record: Record, labels: dict[str, list[str]], no_start: bool) -> list[str]:
    settings, said = experiment.settings, ["Every node is taken to be as fast as the machine that was measured."]
    if record.nodes:
        said = [f"Nodes are taken to be as fast as the {len(record.nodes)} that were measured."]
    if no_start:
        said.append("What a job takes to start was never measured and counts as 0 s; --job-start 2s says what it takes.")
    missing = sorted(
        {t.label for t in experiment.treatments for p in experiment.programs if t.label not in labels[p.name]}
    )
    if missing:
        said.append(f"Not measured everywhere, taken to be as fast as {settings.baseline}: {', '.join(missing)}.")
    fewest = min(len({t.block for t in record.trials if t.workload == p.name and t.counted}) for p in experiment.programs)
    if fewest < 4:
        said.append(f"A workload has {counted(fewest, 'measured block')}; more would make the interval trustworthy.")
    if settings.looks:
        said.append("Allocators that are settled at a look leave; the run is shorter then.")
    if settings.budget is not None:
        said.append(f"The study's budget of {format_duration(settings.budget)} of trial time may end it earlier.")
    return said


def show(plan: FleetPlan) -> None:
    """The answer for people: a sentence, a table of sizes, what more nodes bring, what was assumed."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out, wanted = answers(), plan.wanted
    out.print(
        Text(
            f"On {counted(plan.nodes, 'node')}: {_of(wanted)}, {_hours(wanted.node_seconds)} of node time, "
            f"nodes {_share(wanted.full)} full. The longest block takes {format_duration(wanted.longest)}."
        )
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("nodes", "duration", "95 % of runs", "node time", "full", "each node"):
        table.add_column(heading, justify="right", no_wrap=True)
    for f in plan.sizes:
        style = "bold" if f.nodes == plan.nodes else None
        table.add_row(
            f"{f.nodes:,}",
            _brief(f.duration),
            f"{_brief(f.low)} to {_brief(f.high)}",
            _brief(f.node_seconds),
            _share(f.full),
            f"{_share(f.emptiest)} to {_share(f.fullest)}",
            style=style,
        )
    out.print(table)
    for sentence in (_more(plan), _basis(plan), *plan.assumed):
        out.print(Text(sentence))


def _of(forecast: FleetForecast) -> str:
    low, middle, high = (format_duration(v) for v in (forecast.low, forecast.duration, forecast.high))
    return middle if low == high else f"{middle} ({low} to {high})"


def _share(part: float) -> str:
    return f"{100 * part:.0f} %"


def _brief(seconds: float) -> str:
    """For a column: `52.7 s`, from one minute on `5.5 min`, from two hours on `3.4 h`."""
    if seconds < 60:
        return format_duration(seconds)
    return f"{seconds / 60:.{0 if seconds >= 600 else 1}f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} h" if seconds >= 36000 else format_duration(seconds)


def _more(plan: FleetPlan) -> str:
    """What another size of the fleet would bring."""
    wanted = plan.wanted
    larger = [f for f in plan.sizes if f.nodes > plan.nodes and f.duration <= WORTH * wanted.duration]
    enough = next(f for f in plan.sizes if f.duration <= wanted.duration / WORTH)
    if larger:
        best = min(larger, key=lambda f: (round(f.duration, 1), f.nodes))
        return f"{best.nodes:,} nodes would take {format_duration(best.duration)}."
    if enough.nodes < plan.nodes:
        return (
            f"{counted(enough.nodes, 'node')} would take {format_duration(enough.duration)}: no stage has more than "
            f"{counted(plan.widest, 'block')}, and a block stays on one node."
        )
    return f"More nodes bring little: no stage has more than {counted(plan.widest, 'block')}, and a block stays on one node."


def _basis(plan: FleetPlan) -> str:
    repeated = f"{100 * plan.repeated:.3g} % of the attempts repeated"
    return (
        f"Simulated: {counted(plan.blocks, 'block')} with trial times of {plan.source}, {repeated}, "
        f"{format_duration(plan.job_start) if plan.job_start else '0 s'} to start a job."
    )


def as_object(plan: FleetPlan) -> dict[str, Any]:
    """For --json; times in seconds."""
    found = asdict(plan)
    return {**found, "sizes": list(found["sizes"]), "assumed": list(found["assumed"])}

# SPDX-License-Identifier: Apache-2.0
"""`heapyard history`: the same study over time, and where it changed."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model.errors import HeapyardError, UsageError
from .consoles import answers, remark

if TYPE_CHECKING:
    from ..model.analysis import Analysis, Interval
    from ..model.record import Record
    from ..stats.change_points import ChangePoint


@dataclass(frozen=True, slots=True)
class Point:
    """One experiment's ratio of a treatment to the baseline over all workloads."""

    experiment: str
    created: str
    version: str  # of the allocator
    library: str  # sha256
    ratio: Interval


@dataclass(frozen=True, slots=True)
class Track:
    """A treatment in one metric over time, oldest first, with the points before which it changed."""

    treatment: str
    metric: str
    points: tuple[Point, ...]
    changes: tuple[ChangePoint, ...]  # of the logarithm of the ratio


@click.command()
@click.argument("experiment", default="last", metavar="[EXPERIMENT]")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Metrics to follow (default: time and memory).")
@click.option("--treatment", "treatments", multiple=True, metavar="LABEL", help="Only this treatment, or these.")
@click.option("--json", "json_", is_flag=True, help="Print the history as JSON.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FOLDER", help="Experiments stored there.")
def command(
    experiment: str, metrics: tuple[str, ...], treatments: tuple[str, ...], json_: bool, output: Path | None
) -> None:
    """Follow a study over all experiments of its title on this machine, and say where a ratio changed.

    The history has each treatment's ratio to its baseline, over all workloads of the experiment. From ten experiments on,
    Heapyard looks for changes of level, because fewer cannot show one at 1 %. About one history in a hundred has a false
    alarm.

    \b
    Examples:
      heapyard history
      heapyard history otter --metric wall --treatment jemalloc
    """
    from ..stats.analyse import analyse
    from ..store import list_records, load_record

    last = load_record(experiment, output)
    found: list[tuple[Record, Analysis]] = []
    for listed in list_records(output)[::-1]:
        if not listed.problem and listed.title == last.experiment.title and listed.trials:
            record = load_record(listed.path)
            found.append((record, analyse(record.observations)))
    wanted = metrics or (_leading(found) if found else ())
    tracks = _tracks(found, tuple(wanted), treatments)
    if not tracks:
        if treatments or metrics:
            raise UsageError("no experiment of this title has such a treatment and metric")
        raise HeapyardError(f"no experiment titled '{last.experiment.title}' compares anything")
    if json_:
        click.echo(json.dumps([asdict(t) for t in tracks], indent=1, ensure_ascii=False))
    else:
        _show(last.experiment.title, len(found), tracks)


def _leading(found: list[tuple[Record, Analysis]]) -> tuple[str, str]:
    """Time, and the response of memory that all experiments have: like is compared with like, and that is said."""
    from ..model.leading import leading_memory
    from ..model.metrics import metric_named

    time, wanted = found[-1][1].primary
    memory = leading_memory(wanted, *(analysis.metrics for _, analysis in found if analysis.metrics))
    if memory != wanted:
        shared, asked = metric_named(memory).title, metric_named(wanted).title
        remark(f"memory is followed by {shared}, since not every experiment has {asked}; --metric {wanted} follows those")
    return time, memory


def _tracks(
    found: list[tuple[Record, Analysis]], metrics: tuple[str, ...], treatments: tuple[str, ...]
) -> list[Track]:
    from ..stats.change_points import change_points

    labels = dict.fromkeys(t for _, analysis in found for t in analysis.treatments)
    tracks = []
    for metric in metrics:
        for label in labels:
            if treatments and label not in treatments:
                continue
            points = [p for record, analysis in found if (p := _point(record, analysis, label, metric)) is not None]
            if points:
                logs = [math.log(p.ratio.ratio) for p in points]
                tracks.append(Track(label, metric, tuple(points), tuple(change_points(logs))))
    return tracks


def _point(record: Record, analysis: Analysis, label: str, metric: str) -> Point | None:
    overall = analysis.over_all(metric)
    found = next((c for c in overall.comparisons if c.treatment == label), None) if overall else None
    if found is None or not (math.isfinite(found.interval.ratio) and found.interval.ratio > 0):
        return None
    allocator = next(t.allocator for t in record.experiment.treatments if t.label == label)
    return Point(record.id, record.created, allocator.version, allocator.sha256, found.interval)


def _show(title: str, count: int, tracks: list[Track]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ..model.metrics import metric_named
    from ..stats.change_points import LEVEL, least_p
    from ..report.words import change, direction_text, interval_text, sentence

    out = answers()
    changed = sum(bool(t.changes) for t in tracks)
    out.print(Text(f"{title}: {count} experiments, {changed} of {len(tracks)} ratios changed.", "bold"))
    if least_p(count) > LEVEL:
        remark("changes are looked for from ten experiments on: fewer cannot tell one at 1 %")
    for track in tracks:
        metric = metric_named(track.metric)
        out.print()
        heading = f"{track.treatment}, {metric.title}: ratio to the baseline; {direction_text(metric)}"
        out.print(Text(sentence(heading), "bold"))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name in ("experiment", "version"):  # an experiment's name begins with its date
            table.add_column(name, overflow="fold")
        table.add_column("ratio", no_wrap=True)
        table.add_column("")
        at = {c.at: c for c in track.changes}
        for i, point in enumerate(track.points):
            told = []
            if i and point.library != track.points[i - 1].library:
                told.append("another library")
            if i in at:
                told.append(f"changed by {change(math.exp(at[i].after - at[i].before))}")
            row = (point.experiment, point.version, interval_text(point.ratio))
            table.add_row(*map(Text, row), Text("; ".join(told), "bold" if i in at else ""))
        out.print(table)

# SPDX-License-Identifier: Apache-2.0
"""`heapyard diff`: what changed between two experiments."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model.errors import HeapyardError, UsageError
from .consoles import answers

if TYPE_CHECKING:
    from ..model.record import Record
    from ..stats.difference import Change


@click.command()
@click.argument("before")
@click.argument("after", default="last")
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="Metrics to compare (default: time and memory)."
)
@click.option("--json", "json_", is_flag=True, help="Print the changes as JSON.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FOLDER", help="Experiments stored there.")
def command(before: str, after: str, metrics: tuple[str, ...], json_: bool, output: Path | None) -> None:
    """Compare two experiments: BEFORE with AFTER (default: the last one).

    This compares each treatment's ratio to its own baseline, then and now. It never compares seconds of two days. It also
    says which libraries differ, and what differs about the machine.

    \b
    Examples:
      heapyard diff otter
      heapyard diff otter stork --metric wall --json
    """
    from ..stats.difference import changes
    from ..store import load_record

    first, second = load_record(before, output), load_record(after, output)
    machines = [r.experiment.settings.simulated for r in (first, second)]
    if machines[0].wanted != machines[1].wanted:
        raise UsageError(f"{(first if machines[0].wanted else second).id} was simulated and the other measured; they have no "
                         "number in common")
    wanted, told = (metrics, "") if metrics else _leading(first, second)
    found = changes(first.observations, second.observations, wanted)
    if not found:
        raise HeapyardError(f"experiments {first.id} and {second.id} have no treatment, program and metric in common")
    apart = [*filter(None, [told]), *differences_of(first, second)]
    if json_:
        said = {"before": first.id, "after": second.id, "changes": [asdict(c) for c in found], "other": apart}
        click.echo(json.dumps(said, indent=1, ensure_ascii=False))
    else:
        _show(first, second, found, apart)


def _leading(first: Record, second: Record) -> tuple[tuple[str, str], str]:
    """(the responses of time and memory to compare, a sentence where it is not the memory that the second leads with)."""
    from ..model.leading import leading_memory
    from ..model.metrics import metric_named

    wanted = second.experiment.settings
    memory = leading_memory(wanted.memory_metric, *({row.metric for row in r.observations.rows} for r in (first, second)))
    titles = [metric_named(m).title for m in (memory, wanted.memory_metric)]
    told = "" if memory == wanted.memory_metric else f"memory is compared by {titles[0]}, since not both have {titles[1]}"
    return (wanted.time_metric, memory), told


def differences_of(first: Record, second: Record) -> list[str]:
    """What else is not the same, one sentence each: baselines, libraries, the kernel, the processor."""
    said = []
    bases = [r.experiment.settings.baseline for r in (first, second)]
    if bases[0] != bases[1]:
        said.append(f"the baseline was {bases[0]} and is {bases[1]}: the ratios are to different things")
    libraries = [
        {t.label: t.allocator for t in r.experiment.treatments if t.role == "treatment"} for r in (first, second)
    ]
    for label, now in libraries[1].items():
        then = libraries[0].get(label)
        if then and then.sha256 != now.sha256:
            versions = (
                f"{then.version} to {now.version}" if then.version != now.version else "the same version, other bytes"
            )
            said.append(f"the library of {label} is another ({versions})")
    if second.experiment.settings.simulated.wanted:
        was, now_it_is = (r.experiment.settings.simulated.words for r in (first, second))
        return said + ([f"the simulated machine was a {was} and is a {now_it_is}"] if was != now_it_is else [])
    for fact in ("kernel", "processor", "huge_pages_transparent", "cpus_allowed"):
        then_is, now_is = first.environment.get(fact), second.environment.get(fact)
        if then_is != now_is:
            said.append(f"{fact.replace('_', ' ')} was {_brief(then_is)} and is {_brief(now_is)}")
    return said


def _brief(value: object) -> str:
    text = value.get("model", value) if isinstance(value, dict) else value
    return str(text) if text not in (None, "") else "not known"


def _show(first: Record, second: Record, found: list[Change], apart: list[str]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ..model.metrics import metric_named
    from ..report.words import direction_text, interval_text, listed, sentence

    out = answers()
    changed = [c for c in found if c.verdict == "changed"]
    names = listed(list(dict.fromkeys(f"{c.treatment} on {c.workload}" for c in changed)))
    told = f"changed: {names}" if changed else "nothing is shown to have changed"
    same = sum(c.verdict == "same" for c in found)
    out.print(
        Text(f"{first.id} to {second.id}: {told}; {same} of {len(found)} ratios are shown to be the same.", "bold")
    )
    for sentence_ in apart:
        out.print(Text(f"Note: {sentence_}."))
    for name in dict.fromkeys(c.metric for c in found):
        metric = metric_named(name)
        out.print()
        out.print(Text(f"{sentence(metric.title)}, ratio to the baseline; {direction_text(metric)}", "bold"))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("program", overflow="fold")
        table.add_column("allocator", overflow="fold")
        for heading in ("then", "now", "now / then"):
            table.add_column(heading, no_wrap=True)
        table.add_column("")
        for c in (c for c in found if c.metric == name):
            ratios = (f"{c.before.ratio:.3f}", f"{c.after.ratio:.3f}", interval_text(c.change))
            table.add_row(Text(c.workload), Text(c.treatment), *ratios, Text(c.verdict))
        out.print(table)

# SPDX-License-Identifier: Apache-2.0
"""`heapyard gate`: an exit code for a pipeline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from ..model.errors import EXIT_DIFFERENCE, EXIT_OK, HeapyardError, UsageError
from .options import Share


@click.command()
@click.argument("experiment", default="last", metavar="[EXPERIMENT]")
@click.option("--max-regression", "limit", type=Share(), default="2%", show_default=True, help="Largest regression that passes.")
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="Metrics that count (default: time and memory)."
)
@click.option("--treatment", "treatments", multiple=True, metavar="LABEL", help="Only this treatment, or these.")
@click.option("--strict", is_flag=True, help="Also fail where a treatment is not shown to be 'not worse'.")
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write JUnit XML there.")
@click.option("--json", "json_", is_flag=True, help="Print the answers as JSON.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FOLDER", help="Experiments stored there.")
def command(
    experiment: str,
    limit: float,
    metrics: tuple[str, ...],
    treatments: tuple[str, ...],
    strict: bool,
    junit: Path | None,
    json_: bool,
    output: Path | None,
) -> int:
    """Fail, with exit code 1, if a treatment is worse than the baseline by more than --max-regression.

    A treatment that is not shown to be worse passes, and the answer says so. With --strict only "shown not to be worse"
    passes. A treatment that failed trials fails the gate. Where a ratio depends on the machine, the answer names the ratio of
    each kind.

    \b
    Examples:
      heapyard compare --allocator new=./libnew.so --baseline old ... && heapyard gate
      heapyard gate otter --max-regression 1% --strict --junit gate.xml
    """
    from ..report.junit import junit as as_junit
    from ..report.junit import sentence_of
    from ..stats.analyse import analyse
    from ..stats.gate import gate
    from ..store import load_record

    record = load_record(experiment, output)
    analysis = analyse(record.observations)
    _check_names("treatment", treatments, [t for t in analysis.treatments if t != analysis.baseline])
    _check_names("metric", metrics, analysis.metrics)
    gated = gate(analysis, limit=limit, metrics=metrics or analysis.primary, treatments=treatments)
    failures = [f for f in analysis.failures if not treatments or f.treatment in treatments]
    if not gated and not failures:
        raise HeapyardError(f"experiment {record.id} compares nothing that the gate could judge")
    if junit is not None:
        junit.write_text(as_junit(gated, record, strict=strict), encoding="utf-8")
    bad = [g for g in gated if g.answer == "regression" or (strict and g.answer == "not shown")]
    passed = not bad and not failures
    if json_:
        answers = [{**asdict(g), "sentence": sentence_of(g, analysis.baseline)} for g in gated]
        said = {"passed": passed, "strict": strict, "answers": answers, "failures": [asdict(f) for f in failures]}
        click.echo(json.dumps(said, indent=1, ensure_ascii=False))
    else:
        for f in failures:
            click.echo(
                f"FAIL  {f.treatment} on {f.workload}: {f.failed} of {f.attempted} trials failed, {f.kind}: {f.reason}"
            )
        for g in sorted(gated, key=lambda g: g not in bad):
            word = "FAIL" if g in bad else "open" if g.answer == "not shown" else "pass"
            click.echo(f"{word}  {sentence_of(g, analysis.baseline)}")
        counts = {a: sum(g.answer == a for g in gated) for a in ("regression", "shown not worse", "not shown")}
        click.echo(
            f"{'passed' if passed else 'FAILED'}: {counts['regression']} worse by more than {100 * limit:g} %, "
            f"{counts['shown not worse']} shown not to be, {counts['not shown']} not shown either way"
        )
        if analysis.machines is not None and len(analysis.machines.kinds) > 1:
            click.echo(f"Blocks of {len(analysis.machines.kinds)} kinds of machine are judged together.")
    return EXIT_OK if passed else EXIT_DIFFERENCE


def _check_names(kind: str, names: tuple[str, ...], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"this experiment has no {kind} '{name}'; it has {', '.join(known)}")

"""The report as one HTML file that needs no network: text, tables and figures inside, readable with scripts switched off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..model.analysis import Analysis
from ..model.errors import HeapyardError
from ..model.metrics import PRIMARY_MEMORY, PRIMARY_TIME
from ..model.record import Record
from ..model.units import format_value
from .figures import Series, Spec, figures
from .verdict import verdict
from .words import VERDICT_WORDS, direction_text, interval_text, metric_named, percent, sentence

TEMPLATES = Path(__file__).parent / "templates"
STATIC_WIDTH = 640  # of the pictures shown where scripts are off


def write_report(path: Path, analysis: Analysis, record: Record, *, series: Series | None = None) -> None:
    """Write the report to `path`, whole or not at all. `series(name)` gives the samples (seconds, RSS, PSS) of a trial.

    The same record gives the same bytes. Takes one to two seconds, nearly all of it drawing.
    """
    text = render(analysis, record, series=series)
    draft = path.with_name(path.name + ".part")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise HeapyardError(f"the report {path} cannot be written ({error.strerror})") from None


def render(analysis: Analysis, record: Record, *, series: Series | None = None) -> str:
    """The page as text."""
    import jinja2
    import vl_convert

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    specs = figures(analysis, record, series)
    drawn = [
        {
            "name": name,
            "title": title,
            "text": text,
            "svg": _static(spec),
            "metric": name.removeprefix("forest-") if name.startswith("forest-") else "",
        }
        for name, (title, text, spec) in specs.items()
    ]
    page = environment.get_template("report.html.j2").render(
        record=record,
        analysis=analysis,
        verdict=verdict(analysis),
        figures=drawn,
        primary=(PRIMARY_TIME, PRIMARY_MEMORY),
        overall=_overall(analysis),
        programs=_programs(analysis),
        metrics=_metrics(analysis),
        commands=_commands(record),
        allocators=_allocators(record),
        environment=_flat(record.environment),
        noise=percent(analysis.control.noise) if analysis.control.noise == analysis.control.noise else "unknown",
        control=[f"{w} ({metric_named(m).title})" for w, m in analysis.control.differs],
        settings=record.experiment.settings,
        counted=sum(t.counted for t in record.trials),
        data=_script({name: spec for name, (_, _, spec) in specs.items()}),
        library=vl_convert.javascript_bundle().replace("</script", "<\\/script"),
    )
    return page + "\n"


def _static(spec: Spec) -> str:
    """The figure as SVG, for readers without scripts and until the script has drawn its own."""
    import vl_convert

    fixed = {**spec, "background": "white"}
    if fixed.get("width") == "container":
        fixed["width"] = STATIC_WIDTH
    return vl_convert.vegalite_to_svg(fixed)


def _script(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).replace("<", "\\u003c")


def _overall(analysis: Analysis) -> list[dict[str, Any]]:
    """Rows of the overall table: allocator, then per primary metric its interval, verdict and mark."""
    found = {m: o for m in (PRIMARY_TIME, PRIMARY_MEMORY) if (o := analysis.over_all(m)) is not None and o.comparisons}
    rows = []
    for treatment in analysis.treatments:
        row: dict[str, Any] = {"name": treatment, "cells": [], "order": 1.0}
        for metric, one in found.items():
            c = next((c for c in one.comparisons if c.treatment == treatment), None)
            if c and metric == PRIMARY_TIME:
                row["order"] = c.interval.ratio
            elif c is None and treatment != analysis.baseline:
                row["order"] = 1e9
            text = (
                interval_text(c.interval)
                if c
                else "1 (baseline)"
                if treatment == analysis.baseline
                else "not on every program"
            )
            row["cells"].append(
                {
                    "text": text,
                    "verdict": VERDICT_WORDS[c.verdict] if c else "",
                    "kind": c.verdict if c else "",
                    "best": treatment in one.among_best,
                }
            )
        front = next((p.on_front for p in analysis.pareto if p.treatment == treatment), False)
        rows.append(row | {"front": front})
    return sorted(rows, key=lambda r: r["order"])


def _metrics(analysis: Analysis) -> list[dict[str, Any]]:
    """All metrics by program: absolute means and ratios; the long table at the end."""
    made = []
    for name in analysis.metrics:
        metric = metric_named(name)
        rows = [
            {
                "program": cell.workload,
                "blocks": cell.blocks,
                "name": s.treatment,
                "mean": format_value(s.mean, metric.unit),
                "letters": s.letters,
                "best": s.among_best,
                "ratio": next(
                    (interval_text(c.interval) for c in cell.comparisons if c.treatment == s.treatment),
                    "1" if s.treatment == analysis.baseline else "",
                ),
            }
            for cell in analysis.cells
            if cell.metric == name
            for s in cell.summaries
        ]
        if rows:
            made.append(
                {
                    "name": name,
                    "title": sentence(metric.title),
                    "about": metric.about,
                    "direction": direction_text(metric),
                    "rows": rows,
                }
            )
    return made


def _programs(analysis: Analysis) -> dict[str, list[dict[str, Any]]]:
    """Data tables beside the forests: metric -> rows."""
    return {
        name: [
            {
                "program": cell.workload,
                "name": c.treatment,
                "text": interval_text(c.interval),
                "verdict": VERDICT_WORDS[c.verdict],
                "blocks": c.blocks,
                "more": c.blocks_to_decide,
            }
            for cell in analysis.cells
            if cell.metric == name
            for c in cell.comparisons
        ]
        for name in analysis.metrics
    }


def _commands(record: Record) -> list[dict[str, Any]]:
    """One command line per program and treatment: that of its first trial."""
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    for t in record.trials:
        if t.command_line:
            seen.setdefault(
                (t.workload, t.treatment),
                {
                    "program": t.workload,
                    "name": t.treatment,
                    "line": t.command_line,
                    "trial": t.id,
                    "provider": t.provider,
                },
            )
    return list(seen.values())


def _allocators(record: Record) -> list[dict[str, str]]:
    return [
        {
            "name": t.label,
            "version": t.allocator.version,
            "sha256": t.allocator.sha256,
            "build_id": t.allocator.build_id,
            "path": str(t.allocator.library or "as the program is"),
            "provenance": t.allocator.provenance,
            "options": " ".join(f"{n}={v}" for n, v in (t.allocator.env | t.levels).items()),
        }
        for t in record.experiment.treatments
        if t.role == "treatment"
    ]


def _flat(facts: Any, name: str = "") -> list[tuple[str, str]]:
    """Nested facts as (dotted name, text), in order."""
    if isinstance(facts, dict):
        return [pair for key, value in facts.items() for pair in _flat(value, f"{name}.{key}" if name else str(key))]
    return [(name, ", ".join(map(str, facts)) if isinstance(facts, (list, tuple)) else str(facts))]

# SPDX-License-Identifier: Apache-2.0
"""The answer as one HTML page that needs nothing but itself: no network, no other file, readable without JavaScript."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.analysis import Analysis
from ..model.metrics import metric_named
from ..model.preference import BY_TIME, Preference
from ..model.record import Record
from ..model.units import format_bytes, format_duration, format_value
from . import anova_words, claims
from .curves import section
from .figures import forest, ranks, scatter
from .figures import trials as single_trials
from . import agreement, another_program, load_words, machine_tables, memory_words, page_data, page_tables, trend_words
from .control_words import control_in_words
from .figures.parts import NARROW, WIDE, Row, Spec, fill
from .huge_page_words import huge_pages_of
from .page_file import write_page
from .standings import shown_metrics, standings
from .level_tables import level_tables
from .machine_words import machine_sentences, pooled_in_vain
from .more_time import more_time
from .verdict import answered
from .words import VERDICT_SIGNS, VERDICT_WORDS, direction_text, interval_text, percent, sentence

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).with_name("templates")


def write_report(
    path: Path,
    analysis: Analysis,
    record: Record,
    *,
    series: page_data.ReadSeries | None = None,
    preference: Preference = BY_TIME,
) -> None:
    """Write the page to `path`; the same record gives the same bytes. `series` reads memory over time by name.

    HeapyardError when it cannot be written. The file is complete or absent. About 3 s, and 1.0 to 1.6 MB, most of it
    the script that draws.
    """
    write_page(path, render(analysis, record, series=series, preference=preference))


def render(
    analysis: Analysis,
    record: Record,
    *,
    series: page_data.ReadSeries | None = None,
    preference: Preference = BY_TIME,
) -> str:
    """The page's text. O(trials + cells x treatments + samples of the shown series)."""
    rows = standings(analysis)
    order = [row.treatment for row in rows]
    highlight = next((t for t in order if t != analysis.baseline), "")
    metrics = page_data.trial_metrics(record, analysis)
    trials = page_data.trial_rows(record, metrics)
    curves, unreadable = page_data.memory_curves(record, series)
    curve_figures = section.drawn(analysis, svg)
    figures, specs = _figures(analysis, record, order, highlight, trials, metrics, curves)
    data = page_data.packed(analysis, record, trials, curves)
    data |= {"specs": specs, "order": order, "highlight": highlight, "trialMetrics": list(metrics)}
    template = templates().get_template("report.html.j2")
    answer = answered(analysis, preference)
    return template.render(
        analysis=analysis,
        record=record,
        answer=answer,
        control=control_in_words(analysis),
        huge_pages=huge_pages_of(record),
        more_time="" if (more := more_time(analysis)) in answer.headline else more,
        levels=level_tables(analysis),
        machine_sentences=machine_sentences(analysis, preference, kinds=False),
        machine_tables=machine_tables,
        pooled_in_vain=pooled_in_vain,
        machines_move=any(pooled_in_vain(analysis, m, t) for m in analysis.primary for t in order),
        another=another_program,
        agreement=agreement,
        rows=rows,
        shown=shown_metrics(analysis),
        figures=figures,
        curve_figures=curve_figures,
        anova_words=anova_words,
        trend_words=trend_words,
        claims_tally=claims.tally(analysis.judgements),
        memory_words=memory_words,
        load_words=load_words,
        load_sentences=load_words.sentences(analysis, record.experiment),
        load_rows=load_words.load_rows(analysis),
        memory_sentences=memory_words.sentences(record.memory, analysis.baseline),
        curves=curves,
        unreadable=unreadable,
        tables=page_tables.program_tables(analysis, order),
        runs=page_tables.runs(analysis, record),
        environment=page_tables.flattened(record.environment),
        events=page_tables.event_summary(record),
        span=page_tables.span(record),
        data=_embedded(data),
        drawing=_drawing_script() if figures else "",
        highlight=highlight,
        trial_metrics=metrics,
        step=page_data.step_of(record),
        settings=record.experiment.settings,
        counted=sum(t.counted for t in record.trials),
        compared="treatment" if any(t.levels for t in record.experiment.treatments) else "allocator",
        program_index={name: i for i, name in enumerate(data["programs"])},
        treatment_index={name: i for i, name in enumerate(data["treatments"])},
    )


def _figures(
    analysis: Analysis,
    record: Record,
    order: list[str],
    highlight: str,
    trials: list[Row],
    metrics: tuple[str, ...],
    curves: list[Row],
) -> tuple[dict[str, str], dict[str, dict[str, Spec]]]:
    """Fixed pictures by name, as SVG, and the descriptions the script draws from, by figure and shape."""
    drawn: dict[str, str] = {}
    specs: dict[str, dict[str, Spec]] = {}
    programs = list(dict.fromkeys(c.workload for c in analysis.cells))
    for shape in (WIDE, NARROW):
        if len(analysis.pareto) > 1:
            rows, scales = scatter.scatter_rows(analysis.pareto, analysis.baseline, shape)
            spec = fill(scatter.scatter(scales, shape), rows)
            specs.setdefault("scatter", {})[shape] = spec
            drawn[f"scatter-{shape}"] = svg(spec, f"scatter-{shape}")
        for metric in shown_metrics(analysis):
            rows = page_data.forest_rows(analysis, metric)
            if any(row["verdict"] != "baseline" for row in rows):
                spec = forest.forest(programs, order, shape)
                specs.setdefault("forest", {})[shape] = spec
                if shape == WIDE:
                    chosen = metric_named(metric)
                    parts = forest.parts(chosen, page_data.margin_of(record, chosen))
                    drawn[f"forest-{metric}"] = svg(fill(spec, rows, **parts), f"forest-{metric}")
        if trials and metrics:
            specs.setdefault("trials", {})[shape] = single_trials.trials(programs, shape)
        if curves:
            loaded = any(len(point) > 2 for curve in curves for point in curve["points"])
            specs.setdefault("memory", {})[shape] = single_trials.memory(programs, shape, loaded=loaded)
    for ranking in analysis.rankings:
        drawn[f"ranks-{ranking.metric}"] = svg(ranks.ranks(ranking), f"ranks-{ranking.metric}")
    if "trials" in specs:
        points = page_data.trial_points(trials, metrics[0], 0, analysis.baseline, highlight)
        title = single_trials.axis_title(metric_named(metrics[0]))
        drawn["trials"] = svg(fill(specs["trials"][WIDE], points, y=title), "trials")
    if "memory" in specs:
        drawn["memory"] = svg(
            fill(specs["memory"][WIDE], page_data.memory_points(curves, analysis.baseline, highlight)), "memory"
        )
    return drawn, specs


# What a picture carries for moving and naming its parts; a fixed one named by its page needs neither.
_BALLAST = re.compile(
    r' (?:class|role|aria-[a-z]+|pointer-events|opacity)="(?:[a-z]+-[^"]*|background|foreground|root|marks|true|none|1)"'
    r'|<path d="M0,0h0v0h0Z"/>|<path d="" display="none"/>|<g></g>|<g/>'
)


def svg(spec: Spec, name: str) -> str:
    """A fixed picture. Its inner ids carry `name`, so that pictures of one page do not clip each other."""
    import vl_convert

    text = vl_convert.vegalite_to_svg(spec)
    for _ in range(2):  # what is left empty goes in the second turn
        text = _BALLAST.sub("", text)
    names: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        return match[1] + names.setdefault(match[2], f"{name}-{len(names)}")

    text = re.sub(r'(\bid="|url\(#)([^")]+)', renamed, text)
    return text.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


@cache
def _drawing_script() -> str:
    """Vega, Vega-Lite and Vega-Embed, as carried by vl-convert; exposed as vegaEmbed."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")


def _embedded(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def templates() -> Environment:
    """The templates of pages, with what every page may use."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals |= {
        "metric_named": metric_named,
        "interval_text": interval_text,
        "direction_text": direction_text,
        "format_value": format_value,
        "format_duration": format_duration,
        "format_bytes": format_bytes,
        "percent": percent,
        "sentence": sentence,
        "signs": VERDICT_SIGNS,
        "words": VERDICT_WORDS,
        "claim_class": claims.CLASSES,
        "claim_sign": claims.SIGNS,
        "style": (TEMPLATES / "report.css").read_text(encoding="utf-8"),
        "script": (TEMPLATES / "report.js").read_text(encoding="utf-8"),
    }
    return made

"""The figures of the HTML report as Vega-Lite specifications: data inside, colours a colour-blind reader can tell apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..model.analysis import Analysis, Interval
from ..model.metrics import PRIMARY_MEMORY, PRIMARY_TIME
from ..model.record import Record, TrialRecord
from .words import metric_named, sentence

Spec = dict[str, Any]
Series = Callable[[str], Sequence[tuple[float, int, int]]]

# Okabe and Ito's palette, then darker repeats; shapes tell the repeats apart, and labels stand beside the marks.
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#7F7F7F",
    "#8C510A",
    "#35978F",
    "#762A83",
    "#1B7837",
    "#B2182B",
    "#4D4D4D",
    "#2166AC",
    "#BF812D",
)
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # a name, not an address: nothing is fetched
MOST_POINTS = 120  # of one RSS curve: more than a screen shows


def _spec(**parts: Any) -> Spec:
    return {"$schema": _SCHEMA, "config": {"legend": {"orient": "bottom", "columns": 4, "symbolLimit": 0}}, **parts}


def _scales(treatments: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    domain = list(treatments)
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(domain))]
    shapes = [SHAPES[i % len(SHAPES)] for i in range(len(domain))]
    colour = {"field": "allocator", "type": "nominal", "scale": {"domain": domain, "range": colours}, "legend": None}
    shape = {"field": "allocator", "type": "nominal", "scale": {"domain": domain, "range": shapes}, "legend": None}
    return colour, shape


def _finite(interval: Interval) -> bool:
    return all(math.isfinite(v) and v > 0 for v in (interval.ratio, interval.low, interval.high))


def pareto_figure(analysis: Analysis) -> Spec | None:
    """Time against memory, both as ratios to the baseline with their intervals; labels stand at the points."""
    points = [p for p in analysis.pareto if math.isfinite(p.time.ratio) and math.isfinite(p.memory.ratio)]
    if len(points) < 2:
        return None
    rows = []
    for p in points:
        row = {
            "allocator": p.treatment,
            "time": p.time.ratio,
            "memory": p.memory.ratio,
            "front": "yes" if p.on_front else "no",
        }
        if _finite(p.time) and _finite(p.memory):
            row |= {
                "time low": p.time.low,
                "time high": p.time.high,
                "memory low": p.memory.low,
                "memory high": p.memory.high,
            }
        rows.append(row)
    colour, shape = _scales(analysis.treatments)
    log = {"type": "log", "nice": False, "padding": 24}
    x = {
        "field": "time",
        "type": "quantitative",
        "scale": log,
        "title": "time, ratio to the baseline (← lower is better)",
        "axis": {"format": ".2~f", "tickCount": 6},
    }
    y = {
        "field": "memory",
        "type": "quantitative",
        "scale": log,
        "title": "peak RSS, ratio (↓ lower is better)",
        "axis": {"format": ".2~f", "tickCount": 6},
    }
    front = sorted((r for r in rows if r["front"] == "yes"), key=lambda r: r["time"])
    tooltip = [
        {"field": f, **({"format": ".3f"} if f != "allocator" else {})}
        for f in ("allocator", "time", "time low", "time high", "memory", "memory low", "memory high")
    ]
    whisker = {"type": "rule", "opacity": 0.5}
    return _spec(
        width="container",
        height=380,
        data={"values": rows},
        layer=[
            {
                "data": {"values": [{}]},
                "mark": {"type": "rule", "strokeDash": [2, 3], "opacity": 0.5},
                "encoding": {"x": {"datum": 1, "type": "quantitative"}},
            },
            {
                "data": {"values": [{}]},
                "mark": {"type": "rule", "strokeDash": [2, 3], "opacity": 0.5},
                "encoding": {"y": {"datum": 1, "type": "quantitative"}},
            },
            {
                "data": {"values": front},
                "mark": {
                    "type": "line",
                    "interpolate": "step-after",
                    "strokeDash": [6, 4],
                    "opacity": 0.6,
                    "color": "#888888",
                },
                "encoding": {"x": x, "y": y, "order": {"field": "time"}},
            },
            {
                "mark": whisker,
                "encoding": {"x": {**x, "field": "time low"}, "x2": {"field": "time high"}, "y": y, "color": colour},
            },
            {
                "mark": whisker,
                "encoding": {
                    "x": x,
                    "y": {**y, "field": "memory low"},
                    "y2": {"field": "memory high"},
                    "color": colour,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 110, "opacity": 1},
                "encoding": {"x": x, "y": y, "color": colour, "shape": shape, "tooltip": tooltip},
            },
            {
                "mark": {"type": "text", "dy": -11, "fontSize": 12},
                "encoding": {"x": x, "y": y, "text": {"field": "allocator"}},
            },
        ],
    )


def forest_figure(analysis: Analysis, metric_name: str) -> Spec | None:
    """Every allocator on every program as ratio to the baseline with its 95 % interval, one row of panels per program."""
    metric = metric_named(metric_name)
    rows = []
    for cell in analysis.cells:
        if cell.metric != metric_name:
            continue
        for c in cell.comparisons:
            if _finite(c.interval):
                rows.append(
                    {
                        "program": cell.workload,
                        "allocator": c.treatment,
                        "ratio": c.interval.ratio,
                        "low": c.interval.low,
                        "high": c.interval.high,
                        "verdict": c.verdict,
                        "blocks": c.blocks,
                    }
                )
    if not rows:
        return None
    colour, shape = _scales(analysis.treatments)
    order = [t for t in analysis.treatments if t != analysis.baseline]
    y = {"field": "allocator", "type": "nominal", "sort": order, "title": None}
    side = {"lower": "← lower is better", "higher": "higher is better →", "neutral": "neither is better"}[
        metric.direction
    ]
    axis = {
        "field": "ratio",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "padding": 8},
        "axis": {"format": ".2~f", "tickCount": 4},
        "title": f"ratio ({side})",
    }
    tooltip = [
        {"field": f, **({"format": ".3f"} if f in ("ratio", "low", "high") else {})}
        for f in ("program", "allocator", "ratio", "low", "high", "verdict", "blocks")
    ]
    return _spec(
        data={"values": rows},
        facet={
            "field": "program",
            "type": "nominal",
            "title": None,
            "sort": None,
            "header": {"labelFontSize": 13, "labelFontWeight": "bold"},
        },
        columns=3,
        resolve={"scale": {"x": "independent"}},
        spec={
            "width": 200,
            "height": {"step": 18},
            "layer": [
                {
                    "mark": {"type": "rule", "strokeDash": [2, 3], "opacity": 0.6},
                    "encoding": {"x": {"datum": 1, "type": "quantitative"}},
                },
                {
                    "mark": {"type": "rule", "strokeWidth": 2},
                    "encoding": {"x": {**axis, "field": "low"}, "x2": {"field": "high"}, "y": y, "color": colour},
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                    "encoding": {"x": axis, "y": y, "color": colour, "shape": shape, "tooltip": tooltip},
                },
            ],
        },
    )


def drift_figure(analysis: Analysis, record: Record) -> Spec | None:
    """Every counted trial's wall time over the experiment, relative to the program's mean: drift shows as a slope."""
    trials = [t for t in record.trials if t.counted and t.metrics.get(PRIMARY_TIME, 0) > 0 and t.stage != "counts"]
    if not trials:
        return None
    logs: dict[str, list[float]] = {}
    for t in trials:
        logs.setdefault(t.workload, []).append(math.log(t.metrics[PRIMARY_TIME]))
    centre = {w: math.exp(sum(v) / len(v)) for w, v in logs.items()}
    rows = [
        {
            "program": t.workload,
            "allocator": t.treatment,
            "minutes": round(t.started / 60, 4),
            "relative": round(t.metrics[PRIMARY_TIME] / centre[t.workload], 5),
            "trial": t.id,
            "block": t.block,
            "peak MiB": round(t.metrics.get(PRIMARY_MEMORY, 0) / 2**20, 2),
            "command": f"heapyard show {record.id} --trial {t.id}",
        }
        for t in trials
    ]
    treatments = [*analysis.treatments, *sorted({t.treatment for t in trials} - set(analysis.treatments))]
    colour, shape = _scales(treatments)
    colour["legend"], shape["legend"] = {"title": None}, {"title": None}
    programs = list(logs)
    return _spec(
        width="container",
        height=300,
        data={"values": rows},
        params=[
            {
                "name": "shown",
                "value": programs[0],
                "bind": {"input": "select", "options": programs, "name": "Program: "},
            }
        ],
        transform=[{"filter": "datum.program === shown"}],
        mark={"type": "point", "filled": True, "size": 45},
        encoding={
            "x": {"field": "minutes", "type": "quantitative", "title": "minutes since the experiment began"},
            "y": {
                "field": "relative",
                "type": "quantitative",
                "scale": {"zero": False},
                "title": "wall time, relative to the program's mean",
            },
            "color": colour,
            "shape": shape,
            "tooltip": [{"field": f} for f in ("allocator", "relative", "peak MiB", "trial", "block", "command")],
        },
    )


def memory_figure(analysis: Analysis, record: Record, series: Series | None) -> Spec | None:
    """RSS of the process tree over time: for each allocator and program the trial with the median time average."""
    rows: list[dict[str, Any]] = []
    for trial in _median_trials(analysis, record):
        curve = list(series(trial.series)) if series and trial.series else []
        step = max(1, len(curve) // MOST_POINTS)
        rows += [
            {
                "program": trial.workload,
                "allocator": trial.treatment,
                "seconds": round(t, 4),
                "MiB": round(rss / 2**20, 2),
                "trial": trial.id,
            }
            for t, rss, _ in curve[::step]
        ]
    if not rows:
        return None
    colour, _ = _scales(analysis.treatments)
    colour["legend"] = {"title": None}
    programs = list(dict.fromkeys(r["program"] for r in rows))
    return _spec(
        width="container",
        height=300,
        data={"values": rows},
        params=[
            {
                "name": "shown",
                "value": programs[0],
                "bind": {"input": "select", "options": programs, "name": "Program: "},
            }
        ],
        transform=[{"filter": "datum.program === shown"}],
        mark={"type": "line", "interpolate": "linear", "strokeWidth": 2},
        encoding={
            "x": {"field": "seconds", "type": "quantitative", "title": "seconds since exec"},
            "y": {"field": "MiB", "type": "quantitative", "title": "RSS of the process tree, MiB (lower is better)"},
            "color": colour,
            "tooltip": [{"field": f} for f in ("allocator", "seconds", "MiB", "trial")],
        },
    )


def _median_trials(analysis: Analysis, record: Record) -> list[TrialRecord]:
    groups: dict[tuple[str, str], list[TrialRecord]] = {}
    for t in record.trials:
        if t.counted and t.series and t.treatment in analysis.treatments and "mean_rss" in t.metrics:
            groups.setdefault((t.workload, t.treatment), []).append(t)
    order = {t: i for i, t in enumerate(analysis.treatments)}
    chosen = [sorted(g, key=lambda t: (t.metrics["mean_rss"], t.id))[len(g) // 2] for g in groups.values()]
    return sorted(chosen, key=lambda t: (t.workload, order[t.treatment]))


def figures(analysis: Analysis, record: Record, series: Series | None) -> Mapping[str, tuple[str, str, Spec]]:
    """name -> (title, description for those who cannot see it, specification), in the order of the page."""
    found: dict[str, tuple[str, str, Spec | None]] = {
        "pareto": (
            "Time and memory together",
            "Each allocator at its time ratio (left is faster) and its peak RSS ratio (down is less), with 95 % intervals. "
            "The dashed steps join those that nothing beats in both.",
            pareto_figure(analysis),
        ),
    }
    for metric in analysis.metrics:
        title = sentence(metric_named(metric).title)
        found[f"forest-{metric}"] = (
            f"{title} by program",
            f"Ratio of each allocator to {analysis.baseline} on each program with its 95 % interval; "
            "1, the dotted line, is no difference.",
            forest_figure(analysis, metric),
        )
    found["memory"] = (
        "Memory over time",
        "Resident memory of the whole process tree during the median trial of each allocator.",
        memory_figure(analysis, record, series),
    )
    found["drift"] = (
        "Every trial over time",
        "Wall time of each counted trial relative to its program's mean, against the time it was started: a slope would be drift.",
        drift_figure(analysis, record),
    )
    return {name: (title, text, spec) for name, (title, text, spec) in found.items() if spec is not None}

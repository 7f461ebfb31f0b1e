# SPDX-License-Identifier: Apache-2.0
"""What the report's page draws: comparisons, trials and memory over time as plain rows, and packed for the script."""

from __future__ import annotations

import math
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..model.analysis import Analysis
from ..model.errors import HeapyardError
from ..model.metrics import PRIMARY_TIME, Metric, metric_named
from ..model.record import Record, TrialRecord
from ..model.units import format_duration, format_value
from .figures.forest import band
from .words import bounded, interval_text

Row = dict[str, Any]
Series = Sequence[tuple[float, int, int]]
ReadSeries = Callable[[str], Series]

_FOREST = ("ratio", "low", "high", "verdict", "label")
MOST_NUMBERS = 40_000  # of trials in one page: about 300 kB
MOST_POINTS = 80  # of one curve of memory over time
DIGITS = 6  # significant ones kept of a trial's number; a clock tick of 10 ms in an hour


def forest_rows(analysis: Analysis, metric: str) -> list[Row]:
    """One row per program and allocator: its ratio to the baseline. O(cells x treatments).

    One block bounds nothing: such a ratio is a point without a bar.
    """
    rows = []
    for cell in (c for c in analysis.cells if c.metric == metric):
        found = {c.treatment: c for c in cell.comparisons}
        for treatment in analysis.treatments:
            row: Row = {"program": cell.workload, "treatment": treatment}
            if treatment == analysis.baseline:
                rows.append(row | {"ratio": 1, "low": 1, "high": 1, "verdict": "baseline", "label": "1"})
            elif (c := found.get(treatment)) is not None and math.isfinite(c.interval.ratio) and c.interval.ratio > 0:
                low, high = (c.interval.low, c.interval.high) if bounded(c.interval) else (c.interval.ratio,) * 2
                rows.append(
                    row
                    | {"ratio": rounded(c.interval.ratio), "low": rounded(low), "high": rounded(high)}
                    | {"verdict": c.verdict, "label": interval_text(c.interval)}
                )
    return rows


def margin_of(record: Record, metric: Metric) -> float:
    """The margin of equivalence that applies to a metric, as ratio minus one."""
    settings = record.experiment.settings
    return settings.margin_time if metric.margin == "time" else settings.margin_memory


def counted(record: Record) -> list[TrialRecord]:
    """The trials an analysis stands on, oldest first."""
    return [t for t in record.trials if t.counted and t.status == "ok" and t.metrics]


def trial_metrics(record: Record, analysis: Analysis) -> tuple[str, ...]:
    """The metrics whose single trials a page has room for, in display order."""
    room = max(1, MOST_NUMBERS // max(1, len(counted(record))))
    return analysis.metrics[:room]


def step_of(record: Record) -> int:
    """A page shows every so many-th block of each program: 1, unless a fleet ran more trials than it has room for."""
    return max(1, math.ceil(len(counted(record)) / MOST_NUMBERS))


def trial_rows(record: Record, metrics: Sequence[str]) -> list[Row]:
    """One row per counted trial of the blocks that are shown; `place` is the number of its block and how far into the block
    it ran. O(n)."""
    turns: dict[str, dict[int, int]] = defaultdict(dict)  # the how-manieth of its program a block is
    for trial in counted(record):
        turns[trial.workload].setdefault(trial.block, len(turns[trial.workload]) + 1)
    step = step_of(record)
    trials = [t for t in counted(record) if (turns[t.workload][t.block] - 1) % step == 0]
    size = max(1, len(record.experiment.treatments))
    control = record.observations.control
    return [
        {
            "trial": t.id,
            "program": t.workload,
            "treatment": t.treatment,
            "control": bool(control) and t.treatment == control,
            "round": (turn := turns[t.workload][t.block]),
            "place": round(turn + (t.position + 0.5) / size, 3),
            "block": t.block,
            "at": format_duration(t.started),
            "values": [rounded(t.metrics.get(m)) for m in metrics],
        }
        for t in trials
    ]


def trial_points(rows: Iterable[Row], metric: str, at: int, baseline: str, highlight: str) -> list[Row]:
    """Rows of the figure of single trials for the `at`-th metric of trial_rows; the page's script does the same."""
    unit = metric_named(metric).unit
    points = []
    for row in rows:
        value = row["values"][at]
        if value is None:
            continue
        kind = "A/A control" if row["control"] else kind_of(row["treatment"], baseline, highlight)
        points.append(
            {key: row[key] for key in ("program", "treatment", "round", "place", "block", "at")}
            | {"value": value / 2**20 if unit == "B" else value, "shown": format_value(value, unit)}
            | {"label": row["trial"], "kind": kind, "layer": int(kind != "other")}
        )
    return sorted(points, key=lambda p: p["layer"])


def kind_of(treatment: str, baseline: str, highlight: str) -> str:
    return "baseline" if treatment == baseline else "highlighted" if treatment == highlight else "other"


def memory_curves(record: Record, read: ReadSeries | None) -> tuple[list[Row], int]:
    """Memory over time of the trial of median wall time, per program and treatment; and how many were unreadable.

    The A/A control is left out. Curves are thinned; peaks survive that: each stretch keeps its largest sample. O(samples).
    """
    if read is None:
        return [], 0
    groups: dict[tuple[str, str], list[TrialRecord]] = defaultdict(list)
    for trial in counted(record):
        if trial.series and trial.treatment != record.observations.control:
            groups[trial.workload, trial.treatment].append(trial)
    curves, unreadable = [], 0
    for (program, treatment), trials in groups.items():
        chosen = sorted(trials, key=lambda t: (t.metrics.get(PRIMARY_TIME, 0.0), t.id))[(len(trials) - 1) // 2]
        try:
            series = read(chosen.series)
        except HeapyardError:
            unreadable += 1
            continue
        points = [[round(t, 3), round(rss / 2**20, 2), *mark] for t, rss, *mark in with_load(thinned(series), chosen.loaded)]
        if points:
            curves.append({"program": program, "treatment": treatment, "trial": chosen.id, "points": points})
    return curves, unreadable


def thinned(series: Series) -> list[tuple[float, int]]:
    """At most MOST_POINTS + 2 of (seconds, RSS): both ends, and of each stretch between the largest."""
    points = [(t, rss) for t, rss, _ in series if rss >= 0]
    if len(points) <= MOST_POINTS + 2:
        return points
    inner = points[1:-1]
    cuts = [len(inner) * i // MOST_POINTS for i in range(MOST_POINTS + 1)]
    kept = [max(inner[a:b], key=lambda p: p[1]) for a, b in zip(cuts, cuts[1:], strict=False) if a < b]
    return [points[0], *kept, points[-1]]


def with_load(points: Sequence[tuple[float, int]], loaded: tuple[float, float]) -> list[tuple[float, ...]]:
    """The points with two more, marked by a third number 1: where a server's load began and ended. Between samples a line
    gives the memory. O(points log points)."""
    times = [t for t, _ in points]
    inside = [t for t in loaded if times and times[0] < t < times[-1]]
    return sorted([*points, *((t, _between(points, bisect(times, t), t), 1) for t in inside)])


def _between(points: Sequence[tuple[float, int]], at: int, when: float) -> float:
    (begin, low), (end, high) = points[at - 1], points[at]
    return low + (high - low) * (when - begin) / (end - begin)


def memory_points(curves: Iterable[Row], baseline: str, highlight: str) -> list[Row]:
    """Rows of the figure of memory over time; the page's script does the same."""
    rows = []
    for curve in curves:
        kind = kind_of(curve["treatment"], baseline, highlight)
        for seconds, mib, *mark in curve["points"]:
            rows.append(
                {key: curve[key] for key in ("program", "treatment", "trial")}
                | {"seconds": seconds, "mib": mib, "mark": len(mark), "kind": kind, "layer": int(kind != "other")}
            )
    return sorted(rows, key=lambda r: r["layer"])


def rounded(value: float | None) -> float | None:
    """DIGITS significant digits; None for what is not a finite number."""
    return float(f"{value:.{DIGITS}g}") if value is not None and math.isfinite(value) else None


def packed(analysis: Analysis, record: Record, trials: Sequence[Row], curves: Sequence[Row]) -> Row:
    """Everything the script needs; names once, rows as arrays of indices and numbers."""
    programs = [p.name for p in record.experiment.programs]
    treatments = [t.label for t in record.experiment.treatments]
    program, treatment = ({n: i for i, n in enumerate(names)} for names in (programs, treatments))
    metrics = [metric_named(m) for m in analysis.metrics]
    return {
        "experiment": record.id,
        "baseline": analysis.baseline,
        "programs": programs,
        "treatments": treatments,
        "metrics": [
            {"name": m.name, "title": m.title, "unit": m.unit, "direction": m.direction, **band(margin_of(record, m))}
            for m in metrics
        ],
        "comparisons": [
            [[program[r["program"]], treatment[r["treatment"]], *(r[key] for key in _FOREST)]
             for r in forest_rows(analysis, m)]
            for m in analysis.metrics
        ],
        "trials": [
            [r["trial"], program[r["program"]], treatment[r["treatment"]], int(r["control"]), r["round"], r["place"],
             r["block"], r["at"], r["values"]]
            for r in trials
        ],
        "curves": [[program[c["program"]], treatment[c["treatment"]], c["trial"], c["points"]] for c in curves],
    }  # fmt: skip

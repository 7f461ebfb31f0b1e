# SPDX-License-Identifier: Apache-2.0
"""The one table of the first screen: every allocator with its time, its memory, and where it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from ..model.analysis import Analysis, ByLevel, Comparison, Verdict
from ..model.metrics import metric_named
from ..model.preference import BY_TIME, Preference
from ..model.units import format_value
from .another_program import odds_short, prediction
from .effect_words import change_and_half, noun_of
from .level_words import dependence, level_heading
from .machine_words import machine_levels
from .standings import Standing, shown_metrics, standings
from .terminal_tables import STYLES, name_width, plain_table
from .words import change, percent, plain

MARKS: dict[Verdict, str] = {"better": " ", "worse": " ", "equivalent": "=", "undecided": "?"}
KEY = "= same within the margin, ? undecided"
CHANGE = 13  # columns of `+18.6 % ±0.1=`
_LABEL = "simulated "  # of titles
MEAN = 14  # columns of a heading such as `charged memory`
MOST_LEVEL = 14  # columns of the name of a level or a machine
MOST_ROWS = 10  # on the first screen; further ones that are out of the race are left out there


@dataclass(frozen=True, slots=True)
class Column:
    """One column: heading, width, the entry of a row, and what the key says of it."""

    heading: str
    width: int
    entry: Callable[[Standing], Text]
    key: str = ""


def answer_heading(analysis: Analysis, preference: Preference = BY_TIME) -> str:
    """What the table holds, in a line; that it is simulated, if so, which its columns do not repeat."""
    said = _heading(analysis, preference)
    if not analysis.simulated.wanted or said.lower().startswith(_LABEL):
        return said
    return f"Simulated: {said[:1].lower()}{said[1:]}"


def _heading(analysis: Analysis, preference: Preference) -> str:
    by = dependence(analysis, preference) or machine_levels(analysis, preference)
    if by is not None:
        return f"{level_heading(by, analysis.baseline)}; {_better(by.metric)}"
    metric = next(iter(shown_metrics(analysis)), analysis.time)
    overall = analysis.over_all(metric)
    count = len(overall.workloads) if overall else 0
    over = f"over {analysis.counted(count)}" if count > 1 else f"on {overall.workloads[0]}" if overall else ""
    return f"Change to {analysis.baseline} {over}, ± half of its 95 % interval; {_better(metric)}"


def answer_table(
    analysis: Analysis, width: int, *, out: Sequence[str] = (), preference: Preference = BY_TIME
) -> tuple[Table, str]:
    """The table, and the key to it; columns are left out from the right until it fits. With more than MOST_ROWS rows those of
    the treatments that are `out` are left out too. O(treatments)."""
    rows = standings(analysis)
    kept = rows if len(rows) <= MOST_ROWS else [row for row in rows if row.treatment not in out]
    names = [_name(row) for row in kept]
    by = dependence(analysis, preference) or machine_levels(analysis, preference)
    columns = _level_columns(analysis, by, width) if by is not None else _columns(analysis)
    first = name_width(names, width, 2 * CHANGE + 2)
    used, shown = first + 2, []
    for column in columns:
        if used + column.width > width:
            break
        used += column.width + 2
        shown.append(column)
    table = plain_table()
    table.add_column("allocator", width=first, no_wrap=True, overflow="ellipsis")
    for column in shown:
        table.add_column(Text(column.heading), width=column.width, justify="right", no_wrap=True, overflow="ellipsis")
    for row, name in zip(kept, names, strict=True):
        style = "bold" if row.is_baseline else ""
        table.add_row(Text(plain(name), style=style), *(column.entry(row) for column in shown))
    missing = [f"{len(rows) - len(kept)} more, all out: --verbose"] if len(kept) < len(rows) else []
    return table, ", ".join([KEY, *(column.key for column in shown if column.key), *missing])


def _name(row: Standing) -> str:
    return row.treatment + (" !" if row.failed_on else "")


def _better(metric: str) -> str:
    return "more is better" if metric_named(metric).direction == "higher" else "less is better"


def _columns(analysis: Analysis) -> list[Column]:
    single = len({c.workload for c in analysis.cells}) == 1
    made = []
    for metric in shown_metrics(analysis):
        title, noun = (text.removeprefix(_LABEL) for text in (metric_named(metric).title, noun_of(metric_named(metric))))
        if single:
            made.append(Column(title[:MEAN], max(11, len(title[:MEAN])), _mean_of(analysis, metric)))
        which = f"{noun}: {title}" if not single and metric == analysis.memory and title != noun else ""
        made.append(Column(f"{noun[: CHANGE - 1]} ", CHANGE, _change_of(metric, *_hidden(analysis, metric)), which))
    if single:
        return made
    more, less = ("faster", "slower") if noun_of(metric_named(analysis.time)) == "time" else ("better", "worse")
    made.append(Column("won/lost", 8, _tally_of(analysis), f"won/lost: {analysis.workload_noun}s {more}/{less}"))
    overall = analysis.over_all(analysis.time)
    if overall is not None and overall.next_program:
        made.append(Column("another program", 16, _next_of(analysis)))
        margin = percent(analysis.margins[0]).replace(".0 ", " ")
        made.append(Column("of 10", 5, _odds_of(analysis), f"of 10 such programs gain/lose over {margin}"))
    return made


def _level_columns(analysis: Analysis, by: ByLevel, width: int) -> list[Column]:
    """A column per level; of more levels than fit the first and last ones and some between. Then the mean of memory, unless it
    depends on a level too."""
    each = max(8, *(min(len(level), MOST_LEVEL) + 1 for level in by.levels))
    room = max(2, (width - 18 - CHANGE - 2) // (each + 2))
    count = len(by.levels)
    at = range(count) if count <= room else [round(i * (count - 1) / (room - 1)) for i in range(room)]
    made = [Column(f"{by.levels[i]} ", each, _level_of(by, by.levels[i])) for i in at]
    known = analysis.machines is not None or analysis.level_effects(analysis.memory) is not None
    if by.metric == analysis.time and known and analysis.memory in analysis.metrics:
        made.append(Column("memory ", CHANGE, _change_of(analysis.memory, *_hidden(analysis, analysis.memory))))
    return made


def _marked(text: str, verdict: Verdict) -> Text:
    return Text(f"{text}{MARKS[verdict]}", style=STYLES[verdict])


def _hidden(analysis: Analysis, metric: str) -> tuple[Sequence[str], Sequence[str]]:
    """Treatments whose mean hides something: of what depends on a level, and on the machine."""
    by = analysis.level_effects(metric)
    return by.depends if by else (), analysis.machines.depends(metric) if analysis.machines else ()


def _change_of(metric: str, by_level: Sequence[str], by_machine: Sequence[str]) -> Callable[[Standing], Text]:
    def entry(row: Standing) -> Text:
        found: Comparison | None = row.places[metric].comparison
        if row.is_baseline:
            return Text("0 ")
        if found is None:
            return Text("failed ", style="dim")
        if row.treatment in by_level:
            return Text("by level ", style="dim")
        if row.treatment in by_machine:
            return Text("by machine ", style="dim")
        return _marked(change_and_half(found.interval), found.verdict)

    return entry


def _mean_of(analysis: Analysis, metric: str) -> Callable[[Standing], Text]:
    cell = next((c for c in analysis.cells if c.metric == metric), None)
    means = {s.treatment: s.mean for s in cell.summaries} if cell else {}

    def entry(row: Standing) -> Text:
        mean = means.get(row.treatment)
        return Text("failed" if mean is None else format_value(mean, metric_named(metric).unit))

    return entry


def _tally_of(analysis: Analysis) -> Callable[[Standing], Text]:
    def entry(row: Standing) -> Text:
        seen = row.places[analysis.time].verdicts if analysis.time in row.places else None
        return Text("" if row.is_baseline or not seen else f"{seen['better']}/{seen['worse']}")

    return entry


def _next_of(analysis: Analysis) -> Callable[[Standing], Text]:
    def entry(row: Standing) -> Text:
        found = prediction(analysis, row.treatment)
        if found is None:
            return Text("")
        return Text(f"{_short(found.interval.low)} to {_short(found.interval.high)} %")

    return entry


def _short(ratio: float) -> str:
    """`-32`, `+4.1`, in percent."""
    return f"{100 * (ratio - 1):+.{0 if abs(ratio - 1) >= 0.0995 else 1}f}"


def _odds_of(analysis: Analysis) -> Callable[[Standing], Text]:
    def entry(row: Standing) -> Text:
        found = prediction(analysis, row.treatment)
        return Text("" if found is None else odds_short(found))

    return entry


def _level_of(by: ByLevel, level: str) -> Callable[[Standing], Text]:
    found = {e.treatment: e for e in by.effects if e.level == level}

    def entry(row: Standing) -> Text:
        effect = found.get(row.treatment)
        if effect is None:
            return Text("0 " if row.is_baseline else "failed ")
        return _marked(change(effect.interval.ratio), effect.verdict)

    return entry

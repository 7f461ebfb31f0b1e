# SPDX-License-Identifier: Apache-2.0
"""The tables of the terminal answer, made to fit a number of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from ..model.analysis import Anova, Cell, Comparison, Ranking, Trend
from ..model.metrics import metric_named
from ..model.units import format_value
from .anova_words import number, p_text, size_text
from .curves.tables import CurveTable, widest
from .effect_words import SAYS_NOTHING
from .trend_words import law_of, slope_of, support_of
from .words import VERDICT_SIGNS, VERDICT_WORDS, bounded, interval_text, plain, ratio

STYLES = {"better": "green", "worse": "red", "equivalent": "", "undecided": "dim"}
NAME_WIDTH = 25  # of an allocator, at most
LEAST_NAME = 20  # where a little less makes one table of two
GAP = 2


def cell_table(cell: Cell, order: Sequence[str], baseline: str, width: int) -> Table:
    """All there is to say of one program and metric: mean, ratio, verdict in words, letters."""
    unit = metric_named(cell.metric).unit
    summaries = {s.treatment: s for s in cell.summaries}
    found = {c.treatment: c for c in cell.comparisons}
    table = plain_table()
    table.add_column("allocator", width=name_width(order, width, 52), no_wrap=True, overflow="ellipsis")
    table.add_column("mean", justify="right", no_wrap=True)
    for heading in ("ratio", "verdict", "letters"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for treatment in order:
        name = Text(plain(treatment), style="bold" if treatment == baseline else "")
        if (summary := summaries.get(treatment)) is None:
            table.add_row(name, Text("failed", style="red"), "", "", "")
            continue
        star = "*" if summary.among_best else ""
        mean = format_value(summary.mean, unit)
        if (c := found.get(treatment)) is None:
            table.add_row(name, mean, f"1 {star}", "baseline" if treatment == baseline else "", summary.letters)
        else:
            verdict = f"{VERDICT_SIGNS[c.verdict]} {VERDICT_WORDS[c.verdict]}"
            style = STYLES[c.verdict]
            table.add_row(
                name, mean, f"{interval_text(c.interval)} {star}", Text(verdict, style=style), summary.letters
            )
    return table


def trend_table(trends: Sequence[Trend], width: int) -> Table:
    """Law, slope and support per treatment."""
    table = plain_table()
    table.add_column("allocator", width=name_width([t.treatment for t in trends], width, 55), no_wrap=True,
                     overflow="ellipsis")
    for heading in ("law", "slope (log-log)", "support"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for t in trends:
        table.add_row(plain(t.treatment), law_of(t), slope_of(t), support_of(t))
    return table


def ranking_table(ranking: Ranking, width: int) -> Table:
    """Mean rank and letters, best first."""
    table = plain_table()
    table.add_column("allocator", width=name_width([r.treatment for r in ranking.rows], width, 20), no_wrap=True,
                     overflow="ellipsis")
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("letters", no_wrap=True, overflow="ellipsis")
    for r in ranking.rows:
        table.add_row(plain(r.treatment), f"{r.rank:.2f}", r.letters)
    return table


def anova_table(anova: Anova, width: int) -> Table:
    """Sources with degrees of freedom, F, p and effect size."""
    table = plain_table()
    rows = [(r.source, str(r.df), number(r.f), p_text(r.p), size_text(r)) for r in anova.rows]
    rows.append(("error", str(anova.error_df), "", "", ""))
    used = sum(max(len(row[i]) for row in rows) + GAP for i in range(1, 5))
    longest = max(len(row[0]) for row in rows)
    table.add_column("source", width=max(min(longest, width - used - GAP), 8), no_wrap=True, overflow="ellipsis")
    for title in ("df", "F", "p", "omega2"):
        table.add_column(title, justify="right", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(Text(plain(field)) for field in row))
    return table


def figure_tables(numbers: CurveTable, baseline: str, width: int) -> list[Table]:
    """One figure in numbers, treatments down and levels across, split to fit the width; the last column is half of the
    widest 95 % interval of its row, as a share of the mean."""
    name = max(name_width([t for t, _ in numbers.rows], width, 22), min(len(numbers.over), NAME_WIDTH))
    widths = [
        max(len(level), *(len(cells[i][0]) for _, cells in numbers.rows)) for i, level in enumerate(numbers.levels)
    ]
    last = len("> 999 %")
    made, start = [], 0
    while start < len(numbers.levels):
        end, used = start, name + last + 2 * GAP
        while end < len(numbers.levels) and (end == start or used + widths[end] + GAP <= width):
            used += widths[end] + GAP
            end += 1
        table = plain_table()
        table.add_column(numbers.over, width=name, no_wrap=True, overflow="ellipsis")
        for i in range(start, end):
            table.add_column(numbers.levels[i], justify="right", no_wrap=True)
        table.add_column("±", justify="right", no_wrap=True)
        for (treatment, cells), halves in zip(numbers.rows, numbers.halves, strict=True):
            shown = [mean or "-" for mean, _ in cells[start:end]]
            style = "bold" if treatment == baseline else ""
            table.add_row(Text(plain(treatment), style=style), *shown, Text(widest(halves[start:end]), style="dim"))
        made.append(table)
        start = end
    return made


@dataclass(frozen=True, slots=True)
class _Form:
    """A way to write a ratio in a grid: how wide, how, and what the heading says of it."""

    width: int
    show: Callable[[Comparison], str]
    heading: str


def _half(c: Comparison) -> str:
    """`0.91±1.2%`: the ratio and half of its interval in percent of it; `6.34±>10x` where that says nothing."""
    if not bounded(c.interval):
        return _bare(c)
    half = (c.interval.high - c.interval.low) / 2 / c.interval.ratio
    if half >= SAYS_NOTHING:
        return f"{_bare(c)}±>10x"
    return f"{_bare(c)}±{half * 100:.1f}%" if half < 0.0995 else f"{_bare(c)}±{half * 100:.0f}%"


def _bare(c: Comparison) -> str:
    return f"{c.interval.ratio:.2f}" if c.interval.ratio < 10 else ratio(c.interval.ratio)


_FORMS = (
    _Form(23, lambda c: interval_text(c.interval), " with 95 % interval"),
    _Form(12, _half, " ± half of its 95 % interval"),
    _Form(6, _bare, ""),
)


def grids(
    cells: Sequence[Cell], titles: Sequence[str], order: Sequence[str], baseline: str, width: int
) -> tuple[list[Table], str]:
    """Allocators down, programs across under `titles`, and what the heading says: with intervals where they fit, else
    ratios alone. If even those are too wide for one table there are several of about equal size.
    """
    columns = list(zip(cells, titles, strict=True))
    names = name_width(order, width, width // 2)
    form = next((f for f in _FORMS if names + sum(_column(title, f) + 1 for title in titles) <= width), _FORMS[-1])
    taken = sum(_column(title, form) + 1 for title in titles)
    names = min(names, width - taken) if width - taken >= LEAST_NAME else names
    each = max(1, (width - names) // (max(_column(title, form) for title in titles) + 1))
    size = len(columns) if names + taken <= width else -(-len(columns) // -(-len(columns) // each))
    parts = [columns[i : i + size] for i in range(0, len(columns), size)]
    return [_grid(part, order, baseline, names, form) for part in parts], form.heading


def _column(title: str, form: _Form) -> int:
    return max(form.width, min(len(title), 9))


def _grid(
    columns: Sequence[tuple[Cell, str]], order: Sequence[str], baseline: str, names: int, form: _Form
) -> Table:
    table = Table(box=None, show_header=True, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("", width=names - 1, no_wrap=True, overflow="ellipsis")
    for _, title in columns:
        width = _column(title, form)
        table.add_column(Text(plain(title).rjust(width)), width=width, no_wrap=True, overflow="ellipsis")
    for treatment in order:
        # Padded here: a table that justifies to the right would drop the blank where a mark has no star.
        row = [_entry(cell, treatment, form) for cell, _ in columns]
        for text, (_, title) in zip(row, columns, strict=True):
            text.pad_left(max(0, _column(title, form) - len(text)))
        table.add_row(Text(plain(treatment), style="bold" if treatment == baseline else ""), *row)
    return table


def _entry(cell: Cell, treatment: str, form: _Form) -> Text:
    summary = next((s for s in cell.summaries if s.treatment == treatment), None)
    if summary is None:
        return Text("failed", style="red")
    star = "*" if summary.among_best else " "
    wide = form.width > 10
    found = next((c for c in cell.comparisons if c.treatment == treatment), None)
    if found is None:
        return Text(f"{format_value(summary.mean, metric_named(cell.metric).unit) if wide else '1.00'} {star}")
    mark = f"{form.show(found)}{' ' if wide else ''}{VERDICT_SIGNS[found.verdict]}{star}"
    return Text(mark, style=STYLES[found.verdict])


def name_width(names: Sequence[str], width: int, rest: int) -> int:
    """Columns for the names of allocators when everything beside them takes `rest`."""
    longest = max(len(n) for n in ("allocator", *names))
    return max(8, min(longest + 1, NAME_WIDTH, width - rest - GAP))


def plain_table() -> Table:
    return Table(box=None, show_header=True, header_style="bold", padding=(0, GAP, 0, 0), pad_edge=False)

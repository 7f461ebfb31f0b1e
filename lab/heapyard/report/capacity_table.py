# SPDX-License-Identifier: Apache-2.0
"""The answer of a search for capacities on a terminal; readable without colour at 80 columns."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..model.capacity import Capacities, Capacity
from ..model.journal import BUDGET
from ..model.metrics import metric_named
from ..model.record import Record
from ..model.units import format_value
from .capacity_words import KEY, best_of, capacity_text, control_text, headline, limits_text, rate_text, sentences
from .switch_words import switch_for_good
from .terminal_tables import STYLES, name_width, plain_table
from .words import VERDICT_SIGNS, plain, ratio

WIDEST_TEXT = 100  # columns of running text
MORE_BUDGET = 4  # times the budget halves what is left of the width
BESIDE = 58  # columns beside the name
# After memory: what else to show near the capacity, as far as the screen is wide enough.
MORE = (("steady_rss", "steady RSS", 10), ("cpu_per_request", "CPU each", 10))


def print_capacities(console: Console, found: Capacities, record: Record) -> None:
    """Print the sentences and one table. O(rows)."""
    _paragraph(console, headline(found), "bold")
    console.print()
    _paragraph(console, f"Requests per second with {limits_text(found.limits)}, and what was measured near that rate")
    console.print(capacity_table(found, console.width))
    _paragraph(console, f"{KEY}; intervals of 95 %, those of the ratios hold together", "dim")
    text, alarm = control_text(found)
    _paragraph(console, text, "bold red" if alarm else "")
    for more in sentences(found, record):
        _paragraph(console, more)
    console.print()
    if record.status == "interrupted" or (record.events and record.events[-1].kind == BUDGET):
        budget = MORE_BUDGET * (record.experiment.settings.budget or 0.0)
        more_time = f"heapyard resume {record.id}" + (f" --budget {budget:.0f}s" if record.status != "interrupted" else "")
        console.print(f"Narrower intervals: {more_time}", markup=False, soft_wrap=True, style="dim")
    next_: list[tuple[str, str]] = [
        ("Every trial:", f"heapyard show {record.id} --trials"),
        ("The data:", f"heapyard export {record.id}"),
    ]
    if (best := best_of(found)) is not None:
        next_.append(switch_for_good(record, best.treatment))
    for what, command in next_:
        console.print(f"{what} {command}", markup=False, soft_wrap=True, style="dim")


def capacity_table(found: Capacities, width: int) -> Table:
    """A row for each allocator, the baseline first."""
    first = name_width([row.treatment for row in found.rows], width, BESIDE)
    more, left = [], width - first - BESIDE - 2
    measured = {name for row in found.rows for name in row.near}
    for name, heading, columns in MORE:
        if name in measured and left >= columns + 2:
            more.append((name, heading))
            left -= columns + 2
    table = plain_table()
    table.add_column("allocator", width=first, no_wrap=True, overflow="ellipsis")
    for heading in ("capacity", "95 % interval", f"x {plain(found.baseline)}"[:12], "interval", "memory", *(h for _, h in more)):
        table.add_column(heading, justify="right", no_wrap=True, overflow="ellipsis")
    for row in found.rows:
        label = Text(plain(row.treatment), style="bold" if row.treatment == found.baseline else "")
        near = [_near(row, metric) for metric in (found.memory, *(m for m, _ in more))]
        table.add_row(label, Text(capacity_text(row), style="red" if row.failed else ""), _ends(row), *_ratio(row), *near)
    return table


def _ends(row: Capacity) -> str:
    return f"{rate_text(row.rate.low)} to {rate_text(row.rate.high)}" if row.rate else ""


def _ratio(row: Capacity) -> tuple[Text, str]:
    if row.ratio is None or row.verdict is None:
        return Text(""), ""
    text = Text(f"{ratio(row.ratio.ratio)}{VERDICT_SIGNS[row.verdict]}", style=STYLES[row.verdict])
    return text, f"{ratio(row.ratio.low)}-{ratio(row.ratio.high)}"


def _near(row: Capacity, metric: str) -> str:
    return format_value(row.near[metric], metric_named(metric).unit) if metric in row.near else ""


def _paragraph(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), width=min(console.width, WIDEST_TEXT))

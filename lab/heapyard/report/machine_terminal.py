# SPDX-License-Identifier: Apache-2.0
"""The machines of a fleet on a terminal: kinds, ratios by kind, speeds."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..model.analysis import Analysis, Comparison
from .effect_words import change_and_half
from .machine_tables import KINDS_HEAD, POOLED, SPEED_NOTE, KindTable, kind_tables, kinds_in_words, speed_rows
from .machine_words import machine_sentences
from .terminal_tables import GAP, STYLES, name_width, plain_table
from .words import VERDICT_SIGNS, plain

ENTRY = 15  # columns of `-18.6 % ±0.1 +`
ANSWER = 14  # of the heading and `cannot tell`

Print = Callable[..., None]


def machine_section(console: Console, analysis: Analysis, heading: Print, paragraph: Print) -> None:
    """Everything of the machines, under headings; nothing without a fleet. O(kinds x treatments)."""
    if analysis.machines is None:
        return
    heading(console, "Machines")
    console.print(_kinds(analysis))
    for text in machine_sentences(analysis, kinds=False):
        paragraph(console, text)
    for table in kind_tables(analysis):
        heading(console, table.title)
        for i, part in enumerate(_ratios(table, console.width)):
            if i:
                console.print()
            console.print(part)
        if table.note:
            paragraph(console, table.note)
    if any(table.note for table in kind_tables(analysis)):
        paragraph(console, POOLED, "dim")
    if speeds := speed_rows(analysis):
        heading(console, "Time of each machine beside the mean of all, with intervals that hold together")
        console.print(_speeds(speeds))
        paragraph(console, SPEED_NOTE, "dim")


def _kinds(analysis: Analysis) -> Table:
    table = plain_table()
    for title in KINDS_HEAD:
        table.add_column(title, justify="right" if title == "blocks" else "left", overflow="fold")
    for row in kinds_in_words(analysis):
        table.add_row(*(Text(plain(text)) for text in row))
    return table


def _ratios(numbers: KindTable, width: int) -> list[Table]:
    """As many tables as the width asks for; the last column says in each whether the ratio depends on the machine. How sure
    that is stands on the page."""
    name = name_width([row[0] for row in numbers.rows], width, ENTRY + ANSWER + 2 * GAP)
    each = max(1, (width - name - GAP - ANSWER) // (ENTRY + GAP))
    made = []
    for start in range(0, len(numbers.kinds), each):
        table = plain_table()
        table.add_column("allocator", width=name, no_wrap=True, overflow="ellipsis")
        for kind in numbers.kinds[start : start + each]:
            table.add_column(Text(plain(kind)), width=ENTRY, justify="right", no_wrap=True, overflow="ellipsis")
        table.add_column("on the machine", no_wrap=True, overflow="ellipsis")
        for treatment, found, answer in numbers.rows:
            table.add_row(Text(plain(treatment)), *map(_entry, found[start : start + each]), answer.split(",")[0])
        made.append(table)
    return made


def _entry(found: Comparison | None) -> Text:
    if found is None:
        return Text("failed", style="dim")
    return Text(f"{change_and_half(found.interval)} {VERDICT_SIGNS[found.verdict]}", style=STYLES[found.verdict])


def _speeds(rows: list[tuple[str, str]]) -> Table:
    table = plain_table()
    table.add_column("machine", no_wrap=True, overflow="ellipsis")
    table.add_column("time", no_wrap=True)
    for node, text in rows:
        table.add_row(Text(plain(node)), text)
    return table

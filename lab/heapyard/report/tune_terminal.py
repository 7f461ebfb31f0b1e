# SPDX-License-Identifier: Apache-2.0
"""The answer of a search over settings on a terminal of 80 columns: sentences, tables, lines to paste."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ..model.metrics import metric_named
from ..model.switching import paste_lines
from ..model.tuning import TuneAnswer, Tuned
from ..model.units import counted, format_duration
from .terminal_tables import STYLES, plain_table
from .tune_answer import moved, options, sentence, sides
from .words import VERDICT_SIGNS, plain

if TYPE_CHECKING:
    from rich.console import Console

KEY = "+ better, - worse, = same within the margin, ? undecided; * nothing is ahead of it in both"
MOVES = "! the interval leaves out no effect. Each is the mean over the levels of the other settings, and no claim."


def print_answer(console: Console, answer: TuneAnswer) -> None:
    for tuned in answer.tuned:
        style = "bold green" if tuned.best is not None else "bold"
        console.print(Text(plain(sentence(answer, tuned)), style=style))
    for tuned in answer.tuned:
        if tuned.confirmed is not None:
            console.print()
            console.print(Text(f"{tuned.space.allocator}: confirmed on fresh blocks, against the default", style="bold"))
            console.print(_confirmed(answer, tuned))
            console.print(Text(KEY, style="dim"))
    for tuned in answer.tuned:
        if tuned.effects:
            console.print()
            console.print(Text(f"{tuned.space.allocator}: what each setting brings by itself, from the screening", style="bold"))
            console.print(_effects(answer, tuned))
            console.print(Text(MOVES, style="dim"))
    for tuned in answer.tuned:
        if tuned.environment:
            console.print()
            console.print(Text(f"{tuned.space.allocator}: to set it", style="bold"))
            for where, line in paste_lines(tuned.environment):
                console.print(Text(f"{where:<11}{plain(line)}"), soft_wrap=True)
            if tuned.best is not None:
                console.print(Text("all of it, and how to undo it:", style="dim"))
                console.print(Text(f"           heapyard wrap {shlex.quote(tuned.space.label(tuned.best))}"), soft_wrap=True)
    console.print()
    for line in _footer(answer):
        console.print(Text(line, style="dim"), soft_wrap=True)


def _confirmed(answer: TuneAnswer, tuned: Tuned) -> Table:
    assert tuned.confirmed is not None
    front = {point.treatment for point in tuned.confirmed.pareto if point.on_front}
    table = plain_table()
    table.add_column("setting", overflow="fold", ratio=1)
    for metric in (answer.time, answer.memory):
        table.add_column(metric_named(metric).title, no_wrap=True)
    for choice in (tuned.space.default, *tuned.finalists):
        star = " *" if tuned.space.label(choice) in front else ""
        cells = []
        for comparison in sides(tuned, choice):
            if comparison is None:
                cells.append(Text("" if choice == tuned.space.default else "failed"))
            else:
                sign = VERDICT_SIGNS[comparison.verdict]
                cells.append(Text(f"{moved(comparison.simultaneous)} {sign}", style=STYLES[comparison.verdict]))
        name = Text(plain(options(tuned.space, choice)) + star, style="bold" if choice == tuned.best else "")
        table.add_row(name, *cells)
    return table


def _effects(answer: TuneAnswer, tuned: Tuned) -> Table:
    table = plain_table()
    table.add_column("setting", overflow="fold", ratio=1)
    for metric in (answer.time, answer.memory):
        table.add_column(metric_named(metric).title, no_wrap=True)
    found = {(e.setting, e.level, e.metric): e.interval for e in tuned.effects}
    for setting in tuned.space.settings:
        for level in setting.levels:
            cells = []
            for metric in (answer.time, answer.memory):
                interval = found.get((setting.name, level, metric))
                mark = "" if interval is None or interval.low <= 1 <= interval.high else " !"
                cells.append("?" if interval is None else f"{moved(interval)}{mark}")
            table.add_row(f"{setting.name}={level}", *cells)
    return table


def _footer(answer: TuneAnswer) -> Iterator[str]:
    yield f"{counted(answer.trials, 'trial')} in {format_duration(answer.seconds)}; they are experiments like any other:"
    for phase, name in answer.experiments.items():
        yield f"  {phase:<13} heapyard show {name}"

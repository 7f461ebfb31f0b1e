# SPDX-License-Identifier: Apache-2.0
"""The answer on a terminal: verdict, tables, failures, A/A control, picture. Readable without colour at 80 columns."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from ..model.analysis import Analysis, Cell
from ..model.claim import Judgement
from ..model.journal import BUDGET
from ..model.metrics import metric_named
from ..model.preference import BY_TIME, Preference
from ..model.record import Record
from ..model.units import counted
from . import load_words, memory_words
from .agreement import ranks_and_means, variance_and_verdict
from .another_program import left_out_words
from .anova_words import heading, warnings
from .answer_table import answer_heading, answer_table
from .choice import dominated
from .claims import SIGNS, STYLES, tally
from .curves.tables import curve_tables
from .curves.tables import heading as figure_heading
from .control_words import control_in_words
from .huge_page_words import huge_pages_of
from .machine_terminal import machine_section
from .machine_words import by_machine, chosen_for_all, machine_line
from .more_time import four_times, more_time, what_would_decide
from .scatter_text import scatter
from .standings import standings
from .switch_words import switch_for_good
from .terminal_tables import anova_table, cell_table, figure_tables, grids, ranking_table, trend_table
from .trend_words import ranking_heading, refusals, trends_by_figure
from .verdict import answered
from .words import direction_text, listed, plain, sentence
from .workload_names import short_names

WIDEST_TEXT = 100  # columns of running text: longer lines are hard to read
MOST_FAILURES = 2  # told one by one on the first screen
KEY = "+ better   - worse   = same within the margin   ? undecided   * not distinguishable from the best"


def print_answer(
    console: Console,
    analysis: Analysis,
    record: Record,
    *,
    verbose: bool = False,
    preference: Preference = BY_TIME,
) -> None:
    """Print the answer: the sentences and one table; `verbose` everything behind them too. No line is longer than the console.
    O(analysis)."""
    if not console.encoding.lower().startswith("utf"):
        _print_in_ascii(console, analysis, record, verbose=verbose, preference=preference)
        return
    answer = answered(analysis, preference)
    if answer.alarm:
        _paragraph(console, answer.alarm, "bold red")
    pages = huge_pages_of(record)
    _paragraph(console, f"{answer.headline} {sentence(pages)}." if pages else answer.headline, "bold")
    for text in (answer.another, answer.choices, answer.out):
        if text:
            _paragraph(console, text)
    _one_table(console, analysis, preference)
    _machines(console, analysis, preference)
    _load(console, analysis, record)
    if verbose:
        _everything(console, analysis)
    _memory(console, analysis, record)
    _failures(console, analysis, verbose=verbose)
    _control(console, analysis)
    # A fleet's answer has a line more, and the screen none: that all is decided, the verdicts say.
    settled = analysis.machines is not None and not what_would_decide(analysis)
    if (more := more_time(analysis)) and more not in answer.headline and not settled:
        _paragraph(console, more)
    if analysis.judgements and not verbose:
        _paragraph(console, f"Claims of others: {tally(analysis.judgements)}; why: --verbose.")
    for note in analysis.notes if verbose else ():
        _paragraph(console, f"Note: {note}")
    for what, command in _what_next(analysis, record, chosen_for_all(analysis, preference), verbose=verbose):
        _command(console, what, command)


def _one_table(console: Console, analysis: Analysis, preference: Preference) -> None:
    if len(analysis.treatments) < 2 or not analysis.overall:
        return
    out = [lost.treatment for lost in dominated(analysis)]
    table, key = answer_table(analysis, console.width, out=out, preference=preference)
    _heading(console, answer_heading(analysis, preference))
    console.print(table)
    _paragraph(console, key + (", ! failed somewhere" if analysis.failures else ""), "dim")


def _machines(console: Console, analysis: Analysis, preference: Preference) -> None:
    """One line, or two where the headline goes by machine and leaves out what else stands there."""
    lines = 2 if by_machine(analysis, preference) else 1
    if told := machine_line(analysis, lines * min(console.width, WIDEST_TEXT) - lines, preference):
        _paragraph(console, told)


def _everything(console: Console, analysis: Analysis) -> None:
    """What lies behind the first screen: tables by program, figures, picture, claims, growth, ranks, variance."""
    machine_section(console, analysis, _heading, _paragraph)
    programs = {c.workload for c in analysis.cells}
    if len(programs) == 1 and len(analysis.treatments) > 1:
        _single(console, analysis, analysis.metrics)
    elif len(analysis.treatments) > 1:
        _several(console, analysis, analysis.metrics)
    _curves(console, analysis)
    if analysis.pareto and len(analysis.treatments) > 2:
        _lines(
            console,
            scatter(
                analysis.pareto,
                analysis.baseline,
                memory=metric_named(analysis.memory).title,
                width=min(console.width, 80) - 2,
            ),
        )
    _claims(console, analysis)
    _trends(console, analysis)
    _rankings(console, analysis)
    _anovas(console, analysis)
    if left_out := left_out_words(analysis):
        console.print()
        _paragraph(console, left_out)


def _single(console: Console, analysis: Analysis, metrics: tuple[str, ...]) -> None:
    order = [row.treatment for row in standings(analysis)]
    for cell in (c for m in metrics for c in analysis.cells if c.metric == m):
        metric = metric_named(cell.metric)
        blocks = f"{cell.blocks} {'block' if cell.blocks == 1 else 'blocks'}"
        heading = (
            f"{sentence(metric.title)} of {cell.workload}, {blocks}, ratio to {analysis.baseline} with 95 % interval"
        )
        _heading(console, f"{heading}; {direction_text(metric)}")
        console.print(cell_table(cell, order, analysis.baseline, console.width))
    _paragraph(console, f"{KEY}   a, b share a letter: not distinguishable", "dim")


def _several(console: Console, analysis: Analysis, metrics: tuple[str, ...]) -> None:
    order = [row.treatment for row in standings(analysis)]
    for metric in metrics:
        cells = [c for c in analysis.cells if c.metric == metric]
        if cells:
            _grid(console, analysis, cells, order)
    failed = "   ! failed somewhere" if analysis.failures else ""
    _paragraph(console, KEY + failed, "dim")


def _grid(console: Console, analysis: Analysis, cells: list[Cell], order: list[str]) -> None:
    metric = metric_named(cells[0].metric)
    titles, factor = short_names([c.workload for c in cells])
    tables, what = grids(cells, titles, order, analysis.baseline, console.width)
    _heading(
        console,
        f"{sentence(metric.title)} by {factor or analysis.workload_noun}, ratio to {analysis.baseline}{what}; "
        f"{direction_text(metric)}",
    )
    for table in tables:
        console.print(table)


def _curves(console: Console, analysis: Analysis) -> None:
    """The figures of a study as tables: treatments down, levels across, as many tables as the width takes."""
    for numbers in curve_tables(analysis):
        _heading(console, figure_heading(numbers))
        for table in figure_tables(numbers, analysis.baseline, console.width):
            console.print(table)
        if numbers.note:
            _paragraph(console, numbers.note, "dim")
    if any(c.points for c in analysis.curves):
        about = "± is half of the widest 95 % interval of the row, in percent of the mean; ? is one block."
        _paragraph(console, f"Geometric means; {about}", "dim")


def _claims(console: Console, analysis: Analysis) -> None:
    if analysis.judgements:
        _heading(console, f"What others found, tested here: {tally(analysis.judgements)}")
        print_claims(console, analysis.judgements)


def print_claims(console: Console, judgements: Sequence[Judgement]) -> None:
    """Each claim with its verdict as sign and word, where it comes from, and the evidence; folded at the width."""
    for j in judgements:
        sign = SIGNS[j.verdict]
        source = f" ({j.claim.source})" if j.claim.source else ""
        _paragraph(console, f"{sign} {j.verdict}: {j.claim.text}{source}", STYLES[j.verdict], indent=2)
        _paragraph(console, f"    {j.evidence}", "dim", indent=4)


def _trends(console: Console, analysis: Analysis) -> None:
    for title, trends in trends_by_figure(analysis.trends).items():
        _heading(console, f"{title}: growth with {trends[0].over}")
        console.print(trend_table(trends, console.width))
    for reason in refusals(analysis.scalings):
        _paragraph(console, f"No law of scaling: {reason}.", "dim")
    for s in analysis.scalings:
        if s.contention and s.coherency:
            law = f"contention {s.contention.value:.3f}, coherency {s.coherency.value:.4f}, peak at {s.peak:.1f} threads"
            _paragraph(console, f"{s.figure}, {s.treatment}: {law}", indent=2)


def _rankings(console: Console, analysis: Analysis) -> None:
    for ranking in analysis.rankings:
        _heading(console, ranking_heading(ranking))
        console.print(ranking_table(ranking, console.width))
    if analysis.rankings:
        _paragraph(console, ranks_and_means(analysis))


def _anovas(console: Console, analysis: Analysis) -> None:
    for anova in analysis.anovas:
        _heading(console, f"Analysis of variance of {heading(anova)}")
        console.print(anova_table(anova, console.width))
        for warning in warnings(anova):
            _paragraph(console, f"Note: {warning}.")
    if analysis.anovas:
        _paragraph(console, variance_and_verdict(analysis))


def _load(console: Console, analysis: Analysis, record: Record) -> None:
    if not load_words.shown_columns(analysis):
        return
    _heading(console, load_words.HEADING)
    console.print(load_words.load_table(analysis, console.width))
    _paragraph(console, load_words.KEY, "dim")
    for text in load_words.sentences(analysis, record.experiment):
        _paragraph(console, text)


def _memory(console: Console, analysis: Analysis, record: Record) -> None:
    if not record.memory:
        return
    _heading(console, memory_words.HEADING)
    console.print(memory_words.memory_table(record.memory))
    _paragraph(console, memory_words.KEY, "dim")
    for text in memory_words.sentences(record.memory, analysis.baseline):
        _paragraph(console, text, indent=2)


def _failures(console: Console, analysis: Analysis, *, verbose: bool) -> None:
    if not analysis.failures:
        return
    if not verbose and len(analysis.failures) > MOST_FAILURES:
        where = listed([f"{f.treatment} on {f.workload}" for f in analysis.failures], MOST_FAILURES)
        _paragraph(console, f"Failed, so not measured there: {where}; why: --verbose.", "bold red")
        return
    _heading(console, "Failures: these allocators are not measured on these programs", "bold red")
    for f in analysis.failures:
        text = f"  {f.treatment} on {f.workload}: {f.failed} of {f.attempted} trials, {f.kind}: {f.reason}"
        _paragraph(console, text, indent=4)


def _control(console: Console, analysis: Analysis) -> None:
    _paragraph(console, control_in_words(analysis), "bold red" if analysis.control.alarming else "")


def _what_next(analysis: Analysis, record: Record, chosen: str | None, *, verbose: bool) -> list[tuple[str, str]]:
    """What one can do with this answer: (sentence, command)."""
    notes = f", {counted(len(analysis.notes), 'note')}" if analysis.notes and not verbose else ""
    known = [(f"Every number and figure{notes}:", f"heapyard report {record.id} --open")]
    if chosen is not None:
        known.append(switch_for_good(record, chosen))
    if verbose:
        known.append(("Trials behind each number:", f"heapyard show {record.id} --trials"))
    if record.status == "interrupted":
        return [("It was interrupted and goes on with:", f"heapyard resume {record.id}"), *known]
    spent = any(e.kind == BUDGET for e in record.events)
    if spent and (budget := record.experiment.settings.budget):
        longer = f"heapyard resume {record.id} --budget {max(1, round(4 * budget / 60))}m"
        return [(f"{four_times(analysis)}:", longer), *known]
    return known


def _command(console: Console, what: str, command: str) -> None:
    """On one line where it fits, else the command below."""
    line = Text(f"{what} ", style="dim")
    line.append(command, style="not dim")
    if len(line) <= min(console.width, WIDEST_TEXT):
        console.print(line, no_wrap=True)
    else:
        _paragraph(console, what, "dim")
        _paragraph(console, f"  {command}")


# What the answer uses beyond ASCII, in pairs of equal width.
_ASCII = str.maketrans({"±": "~", "·": ".", "│": "|", "└": "+", "─": "-", "…": ".", "×": "x", "µ": "u"})


def _print_in_ascii(
    console: Console, analysis: Analysis, record: Record, *, verbose: bool, preference: Preference
) -> None:
    """The same answer for a terminal that knows no Unicode, without colour."""
    draft = Console(file=io.StringIO(), width=console.width, highlight=False, _environ={})
    print_answer(draft, analysis, record, verbose=verbose, preference=preference)
    text = draft.file.getvalue().translate(_ASCII)  # type: ignore[attr-defined]
    console.file.write(text.encode("ascii", "replace").decode())


def _heading(console: Console, text: str, style: str = "bold") -> None:
    console.print()
    _paragraph(console, text, style)


def _lines(console: Console, lines: list[str]) -> None:
    if lines:
        console.print()
    for line in lines:
        console.print(Text(plain(line)), no_wrap=True, overflow="crop", crop=True)


def _paragraph(console: Console, text: str, style: str = "", *, indent: int = 0) -> None:
    """Text folded at WIDEST_TEXT columns at most, continued with an indent."""
    styled = Text(plain(text), style=style)
    width = min(console.width, WIDEST_TEXT)
    for i, line in enumerate(styled.wrap(console, width - indent) if len(styled) > width else [styled]):
        line.rstrip()
        shown: RenderableType = Text(" " * indent) + line if i and indent else line
        console.print(shown, no_wrap=True)

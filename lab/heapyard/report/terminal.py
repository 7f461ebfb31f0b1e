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
from ..model.record import Record
from ..model.units import format_duration
from .anova_words import heading, warnings
from .claims import SIGNS, STYLES, tally
from .curve_tables import curve_tables
from .curve_tables import heading as figure_heading
from .scatter_text import scatter
from .standings import shown_metrics, standings
from .terminal_tables import anova_table, cell_table, figure_tables, grids, overall_table, ranking_table, trend_table
from .trend_words import ranking_heading, refusals, trends_by_figure
from .verdict import verdict
from .words import direction_text, percent, plain, sentence
from .workload_names import short_names

WIDEST_TEXT = 100  # columns of running text: longer lines are hard to read
KEY = "+ better   - worse   = same within the margin   ? undecided   * not distinguishable from the best"


def print_answer(console: Console, analysis: Analysis, record: Record, *, verbose: bool = False) -> None:
    """Print the whole answer, `verbose` with all metrics. No line is longer than the console. O(analysis)."""
    if not console.encoding.lower().startswith("utf"):
        _print_in_ascii(console, analysis, record, verbose=verbose)
        return
    _paragraph(console, verdict(analysis), "bold red" if analysis.control.differs else "bold")
    metrics = analysis.metrics if verbose else shown_metrics(analysis)
    programs = {c.workload for c in analysis.cells}
    if len(programs) == 1 and len(analysis.treatments) > 1:
        _single(console, analysis, metrics)
    elif len(analysis.treatments) > 1:
        _several(console, analysis, metrics, verbose=verbose)
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
    if verbose:
        _rankings(console, analysis)
        _anovas(console, analysis)
    _failures(console, analysis)
    console.print()
    _control(console, analysis, several=len(programs) > 1)
    for note in analysis.notes:
        _paragraph(console, f"Note: {note}")
    for what, command in _what_next(analysis, record):
        _paragraph(console, what, "dim")
        if command:
            _paragraph(console, f"  {command}")


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


def _several(console: Console, analysis: Analysis, metrics: tuple[str, ...], *, verbose: bool) -> None:
    rows = standings(analysis)
    shown = [o for m in shown_metrics(analysis) if (o := analysis.over_all(m)) is not None and o.comparisons]
    if shown:
        count = len(shown[0].workloads)
        where = f"On {shown[0].workloads[0]}" if count == 1 else f"Geometric mean over {analysis.counted(count)}"
        _heading(console, f"{where}, ratio to {analysis.baseline} with 95 % interval; lower is better")
        console.print(overall_table(rows, [o.metric for o in shown], console.width))
    for metric in () if any(c.points for c in analysis.curves) and not verbose else metrics:
        cells = [c for c in analysis.cells if c.metric == metric]
        if any(c.comparisons for c in cells) or (cells and not shown):
            _grid(console, analysis, cells, [row.treatment for row in rows])
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
        console.print(ranking_table(ranking, analysis.baseline, console.width))


def _anovas(console: Console, analysis: Analysis) -> None:
    for anova in analysis.anovas:
        _heading(console, f"Analysis of variance of {heading(anova)}")
        console.print(anova_table(anova, console.width))
        for warning in warnings(anova):
            _paragraph(console, f"Note: {warning}.")


def _failures(console: Console, analysis: Analysis) -> None:
    if not analysis.failures:
        return
    _heading(console, "Failures: these allocators are not measured on these programs", "bold red")
    for f in analysis.failures:
        text = f"  {f.treatment} on {f.workload}: {f.failed} of {f.attempted} trials, {f.kind}: {f.reason}"
        _paragraph(console, text, indent=4)


def _control(console: Console, analysis: Analysis, *, several: bool) -> None:
    control = analysis.control
    if not control.checked:
        _paragraph(console, "A/A control: none was measured.")
    elif control.clean:
        median = f" (median over {analysis.workload_noun}s)" if several else ""
        noise = f" Noise of one trial's wall time: {percent(control.noise)}{median}." if control.noise >= 0 else ""
        checks = f"{control.checked} {'check' if control.checked == 1 else 'checks'}"
        _paragraph(console, f"A/A control: {analysis.baseline} does not differ from itself in {checks}.{noise}")
    else:
        where = "; ".join(f"{w} in {metric_named(m).title}" for w, m in control.differs)
        text = f"A/A control: {analysis.baseline} DIFFERS from itself on {where}: something else than the allocator"
        _paragraph(console, f"{text} decides here. See heapyard doctor.", "bold red")


def _what_next(analysis: Analysis, record: Record) -> list[tuple[str, str]]:
    """What one can do with this answer: (sentence, command)."""
    known = [
        ("Figures, every metric, every command line:", f"heapyard report {record.id} --open"),
        ("Trials behind each number:", f"heapyard show {record.id} --trials"),
    ]
    if record.status == "interrupted":
        return [("It was interrupted and goes on with:", f"heapyard resume {record.id}"), *known]
    spent = any(e.kind == BUDGET for e in record.events)
    if spent and (budget := record.experiment.settings.budget):
        longer = f"heapyard resume {record.id} --budget {max(1, round(4 * budget / 60))}m"
        return [("Its budget ended it; four times as much halves the intervals:", longer), *known]
    return [*_time_to_decide(analysis, record), *known]


def _time_to_decide(analysis: Analysis, record: Record) -> list[tuple[str, str]]:
    """How long the further blocks would take that settle a single program; nothing for several or if all is settled."""
    more = [
        c.blocks_to_decide
        for cell in analysis.cells
        if cell.metric in analysis.primary
        for c in cell.comparisons
        if c.blocks_to_decide
    ]
    counted = [t for t in record.trials if t.counted and t.ended > t.started]
    blocks = len({t.block for t in counted})
    if len({c.workload for c in analysis.cells}) != 1 or not more or not blocks:
        return []
    seconds = max(more) * sum(t.ended - t.started for t in counted) / blocks
    return [(f"The blocks that would decide take about {format_duration(seconds)}.", "")]


# What the answer uses beyond ASCII, in pairs of equal width.
_ASCII = str.maketrans({"±": "~", "·": ".", "│": "|", "└": "+", "─": "-", "…": ".", "×": "x", "µ": "u"})


def _print_in_ascii(console: Console, analysis: Analysis, record: Record, *, verbose: bool) -> None:
    """The same answer for a terminal that knows no Unicode, without colour."""
    draft = Console(file=io.StringIO(), width=console.width, highlight=False, _environ={})
    print_answer(draft, analysis, record, verbose=verbose)
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

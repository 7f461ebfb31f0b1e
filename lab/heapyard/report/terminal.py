"""The answer on a terminal: verdict, tables, failures, A/A control, picture. Readable without colour at 80 columns."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..model.analysis import Analysis, Cell, Comparison, Overall
from ..model.metrics import PRIMARY_MEMORY, PRIMARY_TIME
from ..model.record import Record
from ..model.units import format_value
from .scatter_text import scatter
from .verdict import verdict
from .words import VERDICT_SIGNS, bounded, direction_text, interval_text, metric_named, percent, ratio, sentence

PRIMARY = (PRIMARY_TIME, PRIMARY_MEMORY)
STYLES = {"better": "green", "worse": "red", "equivalent": "", "undecided": "dim"}
KEY = "+ better   - worse   = same within the margin   ? undecided   * not distinguishable from the best"
PROGRAM_WIDTH = 14  # of one program's column


def print_answer(console: Console, analysis: Analysis, record: Record, *, verbose: bool = False) -> None:
    """Print the whole answer. Narrower consoles get narrower tables; no line is longer than the console. O(analysis)."""
    if not console.encoding.lower().startswith("utf"):
        _print_in_ascii(console, analysis, record, verbose=verbose)
        return
    _paragraph(console, Text(verdict(analysis), style="bold red" if analysis.control.differs else "bold"))
    overall = [o for o in (analysis.over_all(m) for m in PRIMARY) if o is not None and o.comparisons]
    if overall:
        console.print()
        _overall(console, analysis, overall)
        _paragraph(console, Text(KEY, style="dim"))
    metrics = analysis.metrics if verbose else PRIMARY
    for metric in metrics:
        _programs(console, analysis, metric)
    if analysis.pareto:
        lines = scatter(analysis.pareto, analysis.baseline, width=min(console.width, 80) - 2)
        if lines:
            console.print()
        for line in lines:
            console.print(Text(line), no_wrap=True, overflow="crop", crop=True)
    _failures(console, analysis)
    console.print()
    _control(console, analysis)
    for note in analysis.notes:
        _paragraph(console, Text(f"Note: {note}"))
    _paragraph(console, Text(f"Trials behind each number: heapyard show {record.id} --trials", style="dim"))


# What the answer uses beyond ASCII, in pairs of equal width.
_ASCII = str.maketrans({"±": "~", "·": ".", "│": "|", "└": "+", "─": "-", "…": ".", "×": "x", "µ": "u"})


def _print_in_ascii(console: Console, analysis: Analysis, record: Record, *, verbose: bool) -> None:
    """The same answer for a terminal that knows no Unicode, without colour."""
    draft = Console(file=io.StringIO(), width=console.width, highlight=False, _environ={})
    print_answer(draft, analysis, record, verbose=verbose)
    text = draft.file.getvalue().translate(_ASCII)  # type: ignore[attr-defined]
    console.file.write(text.encode("ascii", "replace").decode())


def _overall(console: Console, analysis: Analysis, overall: Sequence[Overall]) -> None:
    """One row per allocator: geometric mean ratios with their intervals."""
    programs = overall[0].workloads
    where = f"On {programs[0]}" if len(programs) == 1 else f"Geometric mean over {len(programs)} programs"
    _paragraph(
        console, Text(f"{where}, as ratio to {analysis.baseline} with 95 % interval; lower is better", style="bold")
    )
    table = _table()
    table.add_column("allocator", no_wrap=True, overflow="ellipsis", max_width=26)
    for one in overall:
        table.add_column(metric_named(one.metric).title, no_wrap=True)
    table.add_column("", no_wrap=True)
    failed = {f.treatment for f in analysis.failures}
    order = _order(analysis, overall[0])
    for treatment in order:
        cells: list[Text] = []
        for one in overall:
            found = next((c for c in one.comparisons if c.treatment == treatment), None)
            star = "*" if treatment in one.among_best else ""
            if treatment == analysis.baseline:
                cells.append(Text(f"1 {star}".rstrip()))
            else:
                cells.append(
                    _mark(found, interval_text(found.interval) if found else "", star)
                    if found
                    else Text("not everywhere", style="dim")
                )
        table.add_row(Text(treatment), *cells, Text("failures" if treatment in failed else "", style="red"))
    console.print(table)


def _order(analysis: Analysis, time: Overall) -> list[str]:
    """Fastest first; those without a mean last."""
    ratios = {c.treatment: c.interval.ratio for c in time.comparisons} | {analysis.baseline: 1.0}
    return sorted(analysis.treatments, key=lambda t: (t not in ratios, ratios.get(t, 0.0)))


def _mark(comparison: Comparison, text: str, star: str = "") -> Text:
    if comparison.verdict == "worse":
        star = ""  # the baseline is shown to be better, so this is not among the best whatever the all-pairs test can see
    return Text(f"{text} {VERDICT_SIGNS[comparison.verdict]}{star}", style=STYLES[comparison.verdict])


def _programs(console: Console, analysis: Analysis, metric_name: str) -> None:
    """One table per metric: allocators down, programs across, as many columns as fit."""
    cells = [c for c in analysis.cells if c.metric == metric_name]
    if not cells or (len(cells) == 1 and len(analysis.treatments) < 2):
        return
    metric = metric_named(metric_name)
    name_width = min(26, max(len(t) for t in analysis.treatments) + 1)
    per_table = max(1, (console.width - name_width - 2) // PROGRAM_WIDTH)
    console.print()
    _paragraph(
        console,
        Text(
            f"{sentence(metric.title)} by program: ratio to {analysis.baseline} ± half of its 95 % interval; "
            f"{direction_text(metric)}",
            style="bold",
        ),
    )
    for start in range(0, len(cells), per_table):
        _program_table(console, analysis, cells[start : start + per_table], name_width)


def _program_table(console: Console, analysis: Analysis, cells: Sequence[Cell], name_width: int) -> None:
    table = _table()
    table.add_column("", no_wrap=True, overflow="ellipsis", width=name_width)
    for cell in cells:
        table.add_column(Text(cell.workload), no_wrap=True, overflow="ellipsis", width=PROGRAM_WIDTH - 2)
    unit = metric_named(cells[0].metric).unit
    for treatment in analysis.treatments:
        row = []
        for cell in cells:
            summary = next((s for s in cell.summaries if s.treatment == treatment), None)
            star = "*" if summary and summary.among_best else ""
            found = next((c for c in cell.comparisons if c.treatment == treatment), None)
            if summary is None:
                row.append(Text("failed", style="red"))
            elif treatment == analysis.baseline:
                row.append(Text(format_value(summary.mean, unit) + star))
            elif found is None:
                row.append(Text(format_value(summary.mean, unit)))
            else:
                row.append(_mark(found, _short(found), star))
        table.add_row(Text(treatment), *row)
    console.print(table)


def _short(c: Comparison) -> str:
    """`0.91±1%`: the ratio and half of its interval in percent."""
    text = f"{c.interval.ratio:.2f}" if c.interval.ratio < 10 else ratio(c.interval.ratio)
    if not bounded(c.interval):
        return text
    half = (c.interval.high - c.interval.low) / 2 / c.interval.ratio
    return f"{text}±{half * 100:.1f}%" if half < 0.0995 else f"{text}±{half * 100:.0f}%"


def _failures(console: Console, analysis: Analysis) -> None:
    if not analysis.failures:
        return
    console.print()
    _paragraph(console, Text("Failures: these allocators are not measured on these programs", style="bold red"))
    for failure in analysis.failures:
        _paragraph(
            console,
            Text(
                f"  {failure.treatment} on {failure.workload}: {failure.failed} of {failure.attempted} trials, "
                f"{failure.kind}: {failure.reason}"
            ),
            indent=4,
        )


def _control(console: Console, analysis: Analysis) -> None:
    control = analysis.control
    noise = percent(control.noise) if control.noise == control.noise else "unknown"
    if not control.checked:
        _paragraph(console, Text("A/A control: none was measured."))
    elif control.clean:
        _paragraph(
            console,
            Text(
                f"A/A control: {analysis.baseline} does not differ from itself in {control.checked} checks. "
                f"Noise of one trial's wall time: {noise} (median over programs)."
            ),
        )
    else:
        where = "; ".join(f"{w} in {metric_named(m).title}" for w, m in control.differs)
        _paragraph(
            console,
            Text(
                f"A/A control: {analysis.baseline} DIFFERS from itself on {where}: something else than the allocator "
                "decides here. See heapyard doctor.",
                style="bold red",
            ),
        )


def _table() -> Table:
    return Table(box=None, show_header=True, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)


def _paragraph(console: Console, text: Text, indent: int = 0) -> None:
    """Text folded at 100 columns at most, continued with an indent."""
    width = min(console.width, 100)
    lines: Iterable[Text] = text.wrap(console, width - indent) if len(text) > width else [text]
    for i, line in enumerate(lines):
        line.rstrip()
        console.print(Text(" " * indent) + line if i and indent else line, no_wrap=True)

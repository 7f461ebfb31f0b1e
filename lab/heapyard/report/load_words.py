# SPDX-License-Identifier: Apache-2.0
"""What the load saw of a server, and what the server did meanwhile: a table, and what to know of the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from ..catalog.load_generators import GENERATORS
from ..model.analysis import Analysis, Modes, Verdict
from ..model.experiment import Experiment
from ..model.metrics import metric_named
from ..model.units import format_value
from .standings import Standing, standings
from .terminal_tables import STYLES, name_width, plain_table
from .words import VERDICT_SIGNS, listed, percent, plain

HEADING = "Under load"
KEY = "+ better, - worse, = same within the margin, ? undecided; requests/s: more is better, all else: less"
# In the order of columns; of each group the first that was measured, with its heading.
_COLUMNS = (
    (("request_rate", "requests/s"),),
    (("latency_p50", "median"), ("latency_mean", "mean")),
    (("latency_p99", "p99"), ("latency_p95", "p95"), ("latency_max", "longest")),
    (("cpu_per_request", "CPU each"), ("load_cpu", "CPU")),
    (("left_rss", "RSS left"),),
    (("steady_rss", "steady RSS"),),
)
WIDTH = 10  # columns of `11.2 MiB+`
MOST_AT_80 = 5  # columns beside a name of usual length


def shown_columns(analysis: Analysis) -> list[tuple[str, str]]:
    """(metric, heading) of what was measured under load; empty where no server was, or several: a row has no place for each."""
    measured = {cell.metric for cell in analysis.cells}
    if len({cell.workload for cell in analysis.cells if cell.metric == "steady_rss"}) > 1:
        return []
    found = [next((one for one in group if one[0] in measured), None) for group in _COLUMNS]
    return [one for one in found if one] if "steady_rss" in measured or "request_rate" in measured else []


@dataclass(frozen=True, slots=True)
class Entry:
    """A mean in words, and its verdict against the baseline; None for the baseline's own. Without a mean `text` is "failed", or
    "no figure" where no trial failed: less processor time than the kernel counts, for example."""

    text: str
    verdict: Verdict | None = None

    @property
    def sign(self) -> str:
        return VERDICT_SIGNS[self.verdict] if self.verdict else " "


def load_rows(analysis: Analysis) -> list[tuple[Standing, list[Entry]]]:
    """Every treatment with its entries in the order of `shown_columns`. O(cells + treatments x columns)."""
    cells = {cell.metric: cell for cell in analysis.cells}
    failed = {failure.treatment for failure in analysis.failures}
    found = []
    for row in standings(analysis):
        without = "failed" if row.treatment in failed else "no figure"
        entries = []
        for metric, _ in shown_columns(analysis):
            cell = cells[metric]
            mean = next((s.mean for s in cell.summaries if s.treatment == row.treatment), None)
            verdict = next((c.verdict for c in cell.comparisons if c.treatment == row.treatment), None)
            unit = "1" if metric == "request_rate" else metric_named(metric).unit  # the heading has it
            entries.append(Entry(without if mean is None else format_value(mean, unit), verdict))
        found.append((row, entries))
    return found


def load_table(analysis: Analysis, width: int) -> Table:
    """Means of every treatment with the sign of its verdict; columns are left out from the right until it fits."""
    rows, columns = load_rows(analysis), shown_columns(analysis)
    first = name_width([row.treatment for row, _ in rows], width, min(len(columns), MOST_AT_80) * (WIDTH + 2))
    fit = max(1, (width - first) // (WIDTH + 2))
    table = plain_table()
    table.add_column("allocator", width=first, no_wrap=True, overflow="ellipsis")
    for _, heading in columns[:fit]:
        table.add_column(f"{heading} ", width=WIDTH, justify="right", no_wrap=True, overflow="ellipsis")
    for row, entries in rows:
        shown = [Text(f"{e.text}{e.sign}", style=STYLES[e.verdict] if e.verdict else "") for e in entries[:fit]]
        table.add_row(Text(plain(row.treatment), style="bold" if row.is_baseline else ""), *shown)
    return table


def sentences(analysis: Analysis, experiment: Experiment) -> list[str]:
    """What to know of the figures."""
    failed = _failed(analysis)
    told = [two_modes(modes) for modes in analysis.modes]
    told += [f"Requests failed, on average of a trial, under {', '.join(failed)}."] if failed else []
    if any(metric.startswith("latency") for metric, _ in shown_columns(analysis)):
        told += [omission(program.server.generator) for program in experiment.programs
                 if program.server and program.server.generator and not program.server.paced]
    return told + [text for program in experiment.programs if program.server
                   if (text := _coarse(analysis, program.name, program.server.generator, experiment.settings.margin_time))]


def two_modes(modes: Modes) -> str:
    """The two groups of trials, and what follows."""
    metric = metric_named(modes.metric)
    rate = modes.metric == "request_rate"
    low, high = (f"{format_value(value, '1')} requests/s" if rate else format_value(value, metric.unit)
                 for value in (modes.low, modes.high))
    by = "" if rate else f" by {metric.title}"
    others = f", as do those of {listed(modes.others)}" if modes.others else ""
    return (f"The trials of {modes.treatment} fall into two groups{by}, {modes.in_low} at about {low} and {modes.in_high} at about "
            f"{high}{others}; the mean of a few says little.")


def _coarse(analysis: Analysis, workload: str, name: str, margin: float) -> str:
    """Whether half a step of the latencies that a generator prints is more than the margin."""
    step = GENERATORS[name].step if name in GENERATORS else 0.0
    of = [metric for metric, _ in shown_columns(analysis) if metric.startswith("latency_p")]
    means = [s.mean for c in analysis.cells if c.workload == workload and c.metric in of for s in c.summaries]
    if not any(step / 2 > margin * mean for mean in means):
        return ""
    return (f"{name} prints latencies in steps of {format_value(step, 's')}, which is too coarse to tell {percent(margin)} apart "
            "here.")


def omission(name: str) -> str:
    """What becomes of a stall in the latencies of a generator that does not send at a rate."""
    waits = f"{name} waits for an answer before it asks again on a connection."
    if (known := GENERATORS.get(name)) and known.fills_in:
        return (f"{waits} To its latencies it adds, as an estimate, the requests that each slow answer kept it from sending. "
                "A load at a rate of its own measures them.")
    return f"{waits} So its latencies leave out what a stall costs the requests behind it (coordinated omission)."


def _failed(analysis: Analysis) -> Sequence[str]:
    """Treatments under which requests failed, with their mean number."""
    cell = next((c for c in analysis.cells if c.metric == "failed_requests"), None)
    return [f"{s.treatment} ({format_value(s.mean, '1')})" for s in cell.summaries if s.mean >= 0.5] if cell else []

# SPDX-License-Identifier: Apache-2.0
"""What the load saw of a server, and what the server did meanwhile: a table, and what to know of the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from ..model.analysis import Analysis, Verdict
from ..model.experiment import Experiment
from ..model.metrics import metric_named
from ..model.program import Server
from ..model.units import format_value
from .standings import Standing, standings
from .terminal_tables import STYLES, name_width, plain_table
from .words import VERDICT_SIGNS, plain

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
    """(metric, heading) of what was measured under load; empty where no server was."""
    measured = {cell.metric for cell in analysis.cells}
    found = [next((one for one in group if one[0] in measured), None) for group in _COLUMNS]
    return [one for one in found if one] if "steady_rss" in measured or "request_rate" in measured else []


@dataclass(frozen=True, slots=True)
class Entry:
    """A mean in words, and its verdict against the baseline; None for the baseline's own. `text` is "failed" without a mean."""

    text: str
    verdict: Verdict | None = None

    @property
    def sign(self) -> str:
        return VERDICT_SIGNS[self.verdict] if self.verdict else " "


def load_rows(analysis: Analysis) -> list[tuple[Standing, list[Entry]]]:
    """Every treatment with its entries in the order of `shown_columns`. O(cells + treatments x columns)."""
    cells = {cell.metric: cell for cell in analysis.cells}
    found = []
    for row in standings(analysis):
        entries = []
        for metric, _ in shown_columns(analysis):
            cell = cells[metric]
            mean = next((s.mean for s in cell.summaries if s.treatment == row.treatment), None)
            verdict = next((c.verdict for c in cell.comparisons if c.treatment == row.treatment), None)
            unit = "1" if metric == "request_rate" else metric_named(metric).unit  # the heading has it
            entries.append(Entry("failed" if mean is None else format_value(mean, unit), verdict))
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
    told = [f"Requests failed, on average of a trial, under {', '.join(failed)}."] if failed else []
    for server in (program.server for program in experiment.programs if program.server and program.server.generator):
        if not server.paced and any(metric.startswith("latency") for metric, _ in shown_columns(analysis)):
            told.append(omission(server))
    return told


def omission(server: Server) -> str:
    """What the latencies of a load that waits for answers leave out."""
    return (
        f"{server.generator} waits for an answer before it asks again on a connection. So its latencies leave out what a "
        "stall costs the requests behind it (coordinated omission)."
    )


def _failed(analysis: Analysis) -> Sequence[str]:
    """Treatments under which requests failed, with their mean number."""
    cell = next((c for c in analysis.cells if c.metric == "failed_requests"), None)
    return [f"{s.treatment} ({s.mean:.3g})" for s in cell.summaries if s.mean >= 0.5] if cell else []

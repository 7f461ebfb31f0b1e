# SPDX-License-Identifier: Apache-2.0
"""The answer of a search for capacities as Markdown, for a pull request or a wiki page."""

from __future__ import annotations

from ..model.capacity import Capacities, Capacity
from ..model.metrics import metric_named
from ..model.record import Record
from ..model.units import format_value
from .capacity_words import capacity_text, control_text, headline, limits_text, rate_text, sentences
from .markdown import escaped, table_rows
from .words import VERDICT_WORDS, interval_text


def capacity_markdown(found: Capacities, record: Record) -> str:
    """The verdict, a row for each allocator, the control, and what to know of the figures. O(rows)."""
    memory = metric_named(found.memory)
    table = [
        [escaped(row.treatment), escaped(capacity_text(row)), _ends(row), _ratio(row, found.baseline), str(row.trials),
         format_value(row.near[memory.name], memory.unit) if memory.name in row.near else ""]
        for row in found.rows
    ]
    head = ["allocator", "capacity", "95 % interval", f"ratio to {escaped(found.baseline)}", "trials", escaped(memory.title)]
    return "\n".join([
        f"**{escaped(headline(found))}**",
        "",
        f"Requests per second with {escaped(limits_text(found.limits))}; more is better. Intervals hold with 95 %, those of the "
        "ratios all together. Memory is the mean of the trials near the capacity.",
        "",
        *table_rows(head, table),
        escaped(control_text(found)[0]),
        "",
        *(f"- {escaped(text)}" for text in sentences(found, record)),
        "",
        f"Experiment `{record.id}`, heapyard {record.version}, seed {record.experiment.settings.seed}.",
        "",
    ])


def _ends(row: Capacity) -> str:
    return f"{rate_text(row.rate.low)} to {rate_text(row.rate.high)}" if row.rate else ""


def _ratio(row: Capacity, baseline: str) -> str:
    if row.ratio is None or row.verdict is None:
        return "1" if row.treatment == baseline else ""
    return f"{interval_text(row.ratio)} {VERDICT_WORDS[row.verdict]}"

# SPDX-License-Identifier: Apache-2.0
"""The tables of the report's page: numbers already in words, ready for the template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..model.analysis import Analysis, Cell, Comparison, Summary
from ..model.journal import ABANDONED, DROPPED, INTERRUPTED, NOTED, REPEATED, RESUMED
from ..model.record import Record
from ..model.units import format_duration


@dataclass(frozen=True, slots=True)
class Entry:
    """One allocator on one program for one metric; `comparison` is None for the baseline."""

    summary: Summary
    comparison: Comparison | None


@dataclass(frozen=True, slots=True)
class ProgramTable:
    """All metrics of one program: a row per allocator, a column per metric."""

    program: str
    cells: tuple[Cell, ...]
    rows: tuple[tuple[str, tuple[Entry | None, ...]], ...]  # (allocator, one entry per cell)


@dataclass(frozen=True, slots=True)
class Run:
    """How one program was launched under one allocator; `trials` are the counted ones."""

    program: str
    treatment: str
    command: str
    provider: str
    trials: tuple[int, ...]
    others: int  # launches that do not count: warm-up, repeated blocks, failures


def program_tables(analysis: Analysis, order: Sequence[str]) -> list[ProgramTable]:
    """One table per program, allocators in the given order. O(cells x treatments)."""
    made = []
    for program in dict.fromkeys(c.workload for c in analysis.cells):
        cells = tuple(c for c in analysis.cells if c.workload == program)
        columns = [_entries(cell) for cell in cells]
        rows = tuple((t, tuple(column.get(t) for column in columns)) for t in order)
        made.append(ProgramTable(program, cells, rows))
    return made


def _entries(cell: Cell) -> dict[str, Entry]:
    compared = {c.treatment: c for c in cell.comparisons}
    return {s.treatment: Entry(s, compared.get(s.treatment)) for s in cell.summaries}


def runs(analysis: Analysis, record: Record) -> list[Run]:
    """One entry per program and treatment that was launched, in display order; the command is that of a counted trial
    if there is one. O(trials)."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for trial in record.trials:
        groups.setdefault((trial.workload, trial.treatment), []).append(trial)
    made = []
    for program in record.experiment.programs:
        for treatment in record.experiment.treatments:
            trials = groups.get((program.name, treatment.label), [])
            ids = tuple(t.id for t in trials if t.counted and t.status == "ok")
            with_line = [t for t in trials if t.command_line]
            shown = next((t for t in with_line if t.id in ids), with_line[0] if with_line else None)
            if shown is not None:
                made.append(
                    Run(program.name, treatment.label, shown.command_line, shown.provider, ids, len(trials) - len(ids))
                )
    return made


def flattened(facts: Any, name: str = "") -> list[tuple[str, str]]:
    """Nested facts as (dotted name, text), in their own order."""
    if isinstance(facts, dict):
        start = f"{name}." if name else ""
        return [pair for key, value in facts.items() for pair in flattened(value, f"{start}{key}")]
    return [(name, ", ".join(map(str, facts)) if isinstance(facts, (list, tuple)) else str(facts))]


_EVENTS = {
    REPEATED: "blocks repeated because a guard tripped",
    NOTED: "trials counted although a guard tripped, since the limit of repetitions was reached",
    DROPPED: "allocators no longer launched on a program after failures",
    ABANDONED: "programs abandoned",
    INTERRUPTED: "interruptions",
    RESUMED: "resumptions",
}


def event_summary(record: Record) -> list[str]:
    """What happened on the way, counted by kind."""
    counts = Counter(event.kind for event in record.events)
    return [f"{text}: {counts[kind]}" for kind, text in _EVENTS.items() if counts[kind]]


def span(record: Record) -> str:
    """How long it measured, "" if nothing ran."""
    ends = [t.ended for t in record.trials if t.ended]
    return format_duration(max(ends)) if ends else ""

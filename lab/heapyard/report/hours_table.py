# SPDX-License-Identifier: Apache-2.0
"""Hours under load for a terminal of 80 columns: a headline, a row per allocator, a row per hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.hours import Hour, HoursAnswer, ServerAnswer
from ..model.units import format_bytes, format_duration, format_value
from .hours_words import headline, hour_name, is_time, latency_title, milliseconds, per_hour, percent_per_hour, reach_of, sentences

if TYPE_CHECKING:
    from rich.console import Console


def print_hours(console: Console, answer: HoursAnswer) -> None:
    """O(hours x allocators) lines."""
    console.print(headline(answer), style="bold", markup=False)
    console.print(f"{answer.title} under {' and '.join(answer.loads)}", markup=False)
    ran = [f"{format_duration(s.noted.seconds)} under {s.name}" for s in answer.servers if s.noted.seconds]
    console.print(f"Measured: {', '.join(ran) or 'nothing'}.", markup=False)
    if answer.servers:
        console.print()
        _print_servers(console, answer)
        console.print()
        _print_hours(console, answer)
        console.print()
    for text in sentences(answer):
        console.print(text, markup=False)


def _print_servers(console: Console, answer: HoursAnswer) -> None:
    from rich.table import Table

    title = latency_title(answer.latency_name)
    has_rate = any(server.rate or _mean_rate(server) for server in answer.servers)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("allocator", overflow="fold", min_width=9)
    for name in ("resident", "per hour", *(["req/s"] if has_rate else []), *([title, "drift"] if title else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for server in answer.servers:
        cells = [server.name, reach_of(server), per_hour(server.rss).removesuffix("/h") or "–"]
        if has_rate:
            rate = _mean_rate(server)
            cells.append(f"{rate:,.0f}" if rate else "–")
        if title:
            cells += [_latency(answer, _mean([h.latency for h in server.hours])), percent_per_hour(server.latency) or "–"]
        table.add_row(*cells)
    console.print(table)


def _print_hours(console: Console, answer: HoursAnswer) -> None:
    """Mean resident memory and the latency beside it, a pair of columns for each allocator."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("time under load", no_wrap=True)
    title = latency_title(answer.latency_name) if len(answer.servers) <= 3 else ""
    for server in answer.servers:
        table.add_column(server.name, justify="right")
        if title:
            table.add_column(title, justify="right", no_wrap=True)
    longest = max(answer.servers, key=lambda server: len(server.hours)).hours
    for number, hour in enumerate(longest):
        cells = [hour_name(hour.begin, hour.end, answer.period)]
        for server in answer.servers:
            row = server.hours[number] if number < len(server.hours) else Hour(0, 0, None, None, None, None)
            cells.append(format_bytes(row.rss) if row.rss is not None else "–")
            if title:
                cells.append(_latency(answer, row.latency))
        table.add_row(*cells)
    console.print(table)


def _latency(answer: HoursAnswer, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{milliseconds(value)} ms" if is_time(answer.latency_name) else format_value(value, "1")


def _mean_rate(server: ServerAnswer) -> float | None:
    return _mean([hour.rate for hour in server.hours])


def _mean(values: list[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return sum(told) / len(told) if told else None

# SPDX-License-Identifier: Apache-2.0
"""Hours under load as one HTML page that needs nothing but itself."""

from __future__ import annotations

from pathlib import Path

from ..model.hours import HoursAnswer
from ..model.units import format_value
from .figures import hours
from .figures.parts import NARROW, WIDE
from .hours_words import (
    headline, hour_name, is_time, latency_title, milliseconds, per_hour, percent_per_hour, reach_of, sentences,
)
from .html import svg, templates
from .page_file import write_page


def write_hours(path: Path, answer: HoursAnswer) -> None:
    """Write the page; HeapyardError when it cannot be written. About 2 s, most of it for drawing."""
    write_page(path, render(answer))


def render(answer: HoursAnswer) -> str:
    """The page's text. O(samples)."""
    figures = {}
    for shape in (WIDE, NARROW):
        if any(server.noted.samples for server in answer.servers):
            figures[f"memory-{shape}"] = svg(hours.memory(answer, shape), f"memory-{shape}")
        if answer.latency_name:
            figures[f"latency-{shape}"] = svg(hours.latency(answer, shape), f"latency-{shape}")

    def shown(value: float | None) -> str:
        if value is None:
            return "–"
        return f"{milliseconds(value)} ms" if is_time(answer.latency_name) else format_value(value, "1")

    return templates().get_template("hours.html.j2").render(
        answer=answer, headline=headline(answer), sentences=sentences(answer), figures=figures, per_hour=per_hour,
        percent_per_hour=percent_per_hour, hour_name=hour_name, latency=latency_title(answer.latency_name), shown=shown,
        reach=reach_of,
        profiled=any(hour.live is not None for server in answer.servers for hour in server.hours),
        rated=any(hour.rate is not None for server in answer.servers for hour in server.hours),
        machine=_machine(answer),
    )


def _machine(answer: HoursAnswer) -> str:
    """In a few words; "" where it is not known."""
    told = answer.machine
    if not told:
        return ""
    return f"{told['cpus_online']} processors, Linux {told['kernel']}, {told['distribution']}"

# SPDX-License-Identifier: Apache-2.0
"""The answer of a search for capacities as one HTML page that needs nothing but itself."""

from __future__ import annotations

import shlex
from pathlib import Path

from ..model.capacity import Capacities
from ..model.metrics import metric_named
from ..model.record import Record
from . import capacity_words
from .figures.capacity import axis_title, capacities, capacity_rows
from .figures.parts import NARROW, WIDE, fill
from .html import svg, templates
from .page_file import write_page
from .page_tables import event_summary, flattened

# What is told of the trials near the capacity, as far as it was measured.
NEAR = ("steady_rss", "cpu_per_request")


def write_capacities(path: Path, found: Capacities, record: Record) -> None:
    """Write the page to `path`; the same record gives the same bytes. HeapyardError when it cannot be written. O(trials)."""
    order = [row.treatment for row in found.rows] + ([found.control.treatment] if found.control else [])
    points = capacity_rows(found, record)
    figures = {shape: svg(fill(capacities(found, order, shape), points), f"capacity-{shape}") for shape in (WIDE, NARROW)}
    measured = {name for row in found.rows for name in row.near}
    control, alarm = capacity_words.control_text(found)
    template = templates().get_template("capacity.html.j2")
    text = template.render(
        found=found,
        record=record,
        words=capacity_words,
        figures=figures if any(point["kind"] != "band" for point in points) else {},
        axis=axis_title(found.limits[0]),
        near=[metric_named(name) for name in dict.fromkeys((found.memory, *NEAR)) if name in measured],
        control=control,
        alarm=alarm,
        sentences=capacity_words.sentences(found, record),
        command=shlex.join(record.experiment.argv),
        events=event_summary(record),
        environment=flattened(record.environment),
    )
    write_page(path, text)

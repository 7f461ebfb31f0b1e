# SPDX-License-Identifier: Apache-2.0
"""A profile as one HTML page that needs nothing but itself: memory over time, flame graphs of any instant, owners, leaks."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.units import format_bytes, format_duration
from ..report.page_file import write_page
from .chains import Naming, owners, short, total_error
from .page_data import page_data
from .symbols import frames_of
from .terminal import facts, title, warnings

if TYPE_CHECKING:
    from .trace import Trace

TEMPLATES = Path(__file__).with_name("templates")
SCRIPTS = ("data.js", "timeline.js", "flame.js", "tables.js", "page.js")  # in this order
_WITHOUT_SCRIPT = 30


def write_profile_page(path: Path, trace: Trace) -> Path:
    """Writes the page, complete or not at all; HeapyardError when it cannot be written."""
    write_page(path, render(trace))
    return path


def render(trace: Trace) -> str:
    """The page's text. O(records log records + nodes)."""
    naming = Naming(trace, frames_of(trace))
    # "</" would end the script element.
    data = json.dumps(page_data(trace, naming), separators=(",", ":")).replace("</", "<\\/").replace("<!--", "<\\!--")
    return _template().render(
        title=title(trace), program=trace.program, facts=facts(trace), warnings=warnings(trace), answer=_answer(trace, naming),
        rows=_rows(trace, naming), data=data, css=(TEMPLATES / "profile.css").read_text(),
        scripts=[(TEMPLATES / name).read_text() for name in SCRIPTS],
    )


@cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).get_template("profile.html.j2")


def _answer(trace: Trace, naming: Naming) -> str:
    """Who owned most at the peak, in a sentence."""
    peak = trace.snapshot("peak")
    if peak is None or not len(peak.nodes):
        return "No memory was seen."
    found = owners(trace, peak)
    by: dict[str, int] = {}
    for chain in found:
        name = short(naming.telling(chain.node)[0].function)
        by[name] = by.get(name, 0) + chain.bytes
    name, size = max(by.items(), key=lambda item: item[1])
    error = total_error(found)
    beside = f" ± {format_bytes(error)}" if error else ""
    when = format_duration(peak.time)
    share = 100 * size / max(1, sum(by.values()))
    return f"{format_bytes(peak.total)}{beside} at the peak, after {when}; {share:.0f} % of it allocated by {name}."


def _rows(trace: Trace, naming: Naming) -> list[dict[str, str]]:
    """The largest owners at the peak, for readers without scripts."""
    peak = trace.snapshot("peak")
    rows = []
    for chain in owners(trace, peak)[:_WITHOUT_SCRIPT] if peak else []:
        frames = naming.telling(chain.node)
        rows.append({"bytes": format_bytes(chain.bytes), "blocks": f"{chain.blocks:,}", "function": short(frames[0].function),
                     "place": frames[0].place, "callers": " < ".join(short(f.function) for f in frames[1:8])})
    return rows

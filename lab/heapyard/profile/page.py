# SPDX-License-Identifier: Apache-2.0
"""A profile as one HTML page that needs nothing but itself: memory over time, flame graphs of any instant, owners, leaks."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.units import format_bytes, format_duration
from ..report.page_file import write_page
from .account import beside, fullest, when_fullest
from .chains import Naming, as_read, owners, short, total_error
from .page_data import page_data
from .symbols import frames_of
from .terminal import facts, title, warnings

if TYPE_CHECKING:
    from .chains import ChainMemory
    from .trace import Trace

TEMPLATES = Path(__file__).with_name("templates")
SCRIPTS = ("data.js", "timeline.js", "flame.js", "tables.js", "page.js")  # in this order
_WITHOUT_SCRIPT = 30


def write_profile_page(path: Path, trace: Trace, native: bool = False) -> Path:
    """Writes the page, complete or not at all; HeapyardError when it cannot be written. `native`: with the functions of a
    script's interpreter.
    """
    write_page(path, render(trace, native))
    return path


def render(trace: Trace, native: bool = False) -> str:
    """The page's text. O(records log records + nodes)."""
    naming = Naming(trace, frames_of(trace), native)
    # "</" would end the script element.
    data = json.dumps(page_data(trace, naming), separators=(",", ":")).replace("</", "<\\/").replace("<!--", "<\\!--")
    return _template().render(
        title=title(trace), program=trace.program, facts=facts(trace), warnings=warnings(trace), answer=_answer(trace, naming),
        account=_account(trace), rows=_rows(trace, naming), data=data, css=(TEMPLATES / "profile.css").read_text(),
        scripts=[(TEMPLATES / name).read_text() for name in SCRIPTS],
    )


@cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).get_template("profile.html.j2")


def _answer(trace: Trace, naming: Naming) -> str:
    """Who owned most, in a sentence: of the blocks at their peak, or of all memory where most of it was mapped."""
    peak, account = trace.snapshot("peak"), fullest(trace.accounts)
    if account is not None and (first := account.parts[0]).key == "mapped":
        mapped = owners(trace, account.of_mappings())
        name, size = _largest(naming, mapped)
        when, share = when_fullest(trace, account), 100 * first.bytes / account.resident
        return (f"{format_bytes(account.resident)} resident {when}; {share:.0f} % mapped by the program, "
                f"{100 * size / max(1, first.bytes):.0f} % of that by {name}.")
    if peak is None or not len(peak.nodes):
        return "No memory was seen."
    found = owners(trace, peak)
    name, size = _largest(naming, found)
    error = total_error(found)
    beside = f" ± {format_bytes(error)}" if error else ""
    when = format_duration(peak.time)
    share = 100 * size / max(1, sum(chain.bytes for chain in found))
    return f"{format_bytes(peak.total)}{beside} at the peak, after {when}; {share:.0f} % of it allocated by {name}."


def _largest(naming: Naming, found: list[ChainMemory]) -> tuple[str, int]:
    """The function whose chains own most, and how many bytes."""
    by: dict[str, int] = {}
    for chain in found:
        name = short(naming.telling(chain.node)[0].function)
        by[name] = by.get(name, 0) + chain.bytes
    return max(by.items(), key=lambda item: item[1])


def _account(trace: Trace) -> dict[str, Any] | None:
    """All of the resident memory when there was most of it, the largest part first; None where nobody could look."""
    account = fullest(trace.accounts)
    if account is None:
        return None
    parts = [{"name": part.name, "bytes": format_bytes(part.bytes), "percent": f"{100 * part.bytes / account.resident:.2f}",
              "share": f"{100 * part.bytes / account.resident:.0f} %"} for part in account.parts if part.bytes]
    return {"total": format_bytes(account.resident), "when": when_fullest(trace, account), "parts": parts,
            "beside": beside(account)}


def _rows(trace: Trace, naming: Naming) -> list[dict[str, str]]:
    """The largest owners at the peak, for readers without scripts."""
    peak = trace.snapshot("peak")
    rows = []
    for chain in as_read(naming, owners(trace, peak))[:_WITHOUT_SCRIPT] if peak else []:
        frames = naming.telling(chain.node)
        rows.append({"bytes": format_bytes(chain.bytes), "blocks": f"{chain.blocks:,}", "function": short(frames[0].function),
                     "place": frames[0].place, "callers": " < ".join(short(f.function) for f in frames[1:8])})
    return rows

# SPDX-License-Identifier: Apache-2.0
"""`heapyard profile list`."""

from __future__ import annotations

import json
from typing import Any

import click

from ...model.shared import TRACE_SUFFIX
from ...model.units import format_bytes, format_duration


@click.command()
@click.option("--all", "all_", is_flag=True, help="Every one (default: the last 20).")
@click.option("--json", "json_", is_flag=True, help="Print the list as JSON.")
def command(all_: bool, json_: bool) -> None:
    """List the profiles on this machine, the newest first."""
    from ...profile.library import folders, main_trace
    from ...profile.trace import load_trace

    found = folders()[::-1]
    rows: list[dict[str, Any]] = []
    for folder in found if all_ else found[:20]:
        traces = sorted(folder.glob(f"*{TRACE_SUFFIX}"))
        trace = load_trace(main_trace(traces))
        rows.append({"profile": folder.name, "command": trace.command, "seconds": trace.duration,
                     "peak_bytes": trace.peak_bytes, "processes": len(traces), "folder": str(folder)})
    if json_:
        click.echo(json.dumps(rows, indent=1))
        return
    if not rows:
        click.echo("There is no profile on this machine. heapyard profile -- COMMAND makes one.")
    from ..consoles import answers

    width = answers().width
    for row in rows:
        head = f"{row['profile']:<32} {format_bytes(row['peak_bytes']):>9} {format_duration(row['seconds']):>12}  "
        click.echo(head + row["command"][: max(10, width - len(head))])

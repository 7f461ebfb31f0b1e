# SPDX-License-Identifier: Apache-2.0
"""`heapyard profile diff`."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("before")
@click.argument("after", default="last")
@click.option("--at", "when", default="peak", show_default=True, metavar="INSTANT", help="peak, end, mark:NAME, or a time.")
@click.option("--then", metavar="INSTANT", help="Another instant of BEFORE (default: the same).")
@click.option("--top", type=click.IntRange(1), default=15, show_default=True, metavar="N", help="Call chains to show.")
@click.option("--json", "json_", is_flag=True, help="Print every chain as JSON.")
def command(before: str, after: str, when: str, then: str | None, top: int, json_: bool) -> None:
    """Compare two profiles, or two instants of one, by call chain.

    \b
    Examples:
      heapyard profile diff before.hytrace after.hytrace
      heapyard profile diff last last --then 10s --at 60s
    """
    from ...profile.chains import Naming, differences
    from ...profile.instants import at_instant
    from ...profile.library import load_main
    from ...profile.symbols import frames_of
    from ...profile.terminal import show_differences
    from ..consoles import answers

    first, second = load_main(before), load_main(after)
    names = Naming(first, frames_of(first)), Naming(second, frames_of(second))
    earlier, later = at_instant(first, then or when), at_instant(second, when)
    rows = differences(first, second, earlier, later, names)
    if json_:
        click.echo(json.dumps({
            "before": {"trace": str(first.path), "seconds": earlier.time, "bytes": earlier.total},
            "after": {"trace": str(second.path), "seconds": later.time, "bytes": later.total},
            "chains": [{"functions": list(key), "before": a, "after": b, "error_95": e} for key, a, b, e in rows if a != b],
        }, indent=1))
        return
    show_differences(answers(), (first, earlier), (second, later), rows, top)

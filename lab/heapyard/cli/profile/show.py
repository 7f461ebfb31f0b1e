# SPDX-License-Identifier: Apache-2.0
"""`heapyard profile show`."""

from __future__ import annotations

from pathlib import Path

import click

from ...model.errors import UsageError


@click.command()
@click.argument("profile", default="last", metavar="[PROFILE]")
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, metavar="N", help="Call chains to show.")
@click.option("--at", "when", metavar="INSTANT", help="The instant to show: peak, end, mark:NAME, or a time such as 90s.")
@click.option("--since", metavar="TIME", help="Show what has grown from that time to the end.")
@click.option("--process", type=int, metavar="PID", help="Show this process of the profile, not its largest.")
@click.option("--all", "all_", is_flag=True, help="List every process of the profile.")
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the page there.")
@click.option("--native", is_flag=True, help="Show the interpreter's functions too, where a script's are named.")
@click.option("--json", "json_", is_flag=True, help="Print it as JSON.")
def command(
    profile: str, top: int, when: str | None, since: str | None, process: int | None, all_: bool, page: Path | None, native: bool,
    json_: bool,
) -> None:
    """Show who owned the memory of a profile.

    PROFILE is a trace's file, a part of a profile's name, or `last` (the default).

    \b
    Examples:
      heapyard profile show --at 90s
      heapyard profile show redis --since 5m
      heapyard profile show server.hytrace --html server.html
    """
    from ...profile.chains import Naming
    from ...profile.instants import at_instant
    from ...profile.library import load_main, traces_of
    from ...profile.symbols import frames_of
    from ...profile.terminal import show, show_growth, show_instant, show_processes
    from ..consoles import answers, remark

    if when and since:
        raise UsageError("give one of --at and --since")
    if all_:
        show_processes(answers(), traces_of(profile))
        return
    trace = load_main(profile, process)
    naming = Naming(trace, frames_of(trace), native)
    if page is not None:
        from ...profile.page import write_profile_page

        remark(f"page: {write_profile_page(page, trace, native)}")
    if json_:
        from ...profile.summary_json import summary

        click.echo(summary(trace, naming, [at_instant(trace, when)] if when else None))
    elif when:
        show_instant(answers(), trace, naming, at_instant(trace, when), top)
    elif since:
        show_growth(answers(), trace, naming, at_instant(trace, since), top)
    else:
        show(answers(), trace, naming, top)

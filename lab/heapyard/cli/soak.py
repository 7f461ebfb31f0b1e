# SPDX-License-Identifier: Apache-2.0
"""`heapyard soak`: whole test suites under a malloc library beside the same under glibc, or a server under its load for hours."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..model.errors import EXIT_DIFFERENCE, EXIT_INTERRUPTED, EXIT_SETUP, SetupError, UsageError
from ..model.hours import IN_TURNS, SIDE_BY_SIDE
from ..model.units import counted, format_duration
from .libraries import named_libraries
from .naming import split_list
from .options import Duration
from .own_command import WithCommand
from .server_options import load_of, rate_option, server_options
from .status_line import StatusLine

if TYPE_CHECKING:
    import threading

    from ..catalog.server_command import Load
    from ..execute.soak.workshop import Workshop
    from ..model.allocator import Allocator
    from ..model.soak import SoakAnswer, Suite
    from .hours import Wish

TIME = 3600.0  # seconds, unless said otherwise


class _WithServer(WithCommand):
    usage = "[OPTIONS] [NAME|LIBRARY]... [--load COMMAND -- SERVER [ARGUMENT]...]"


@click.command(cls=_WithServer)
@click.argument("libraries", nargs=-1, metavar="[NAME|LIBRARY]...")
@click.option("--allocators", multiple=True, metavar="NAME,...", help="The same as names before the options.")
@click.option("--for", "seconds", type=Duration(), metavar="TIME",
              help="How long for each library, or for all with --load, such as 10m or 8h. Default: 1 hour.")
@click.option("--program", "programs", multiple=True, metavar="NAME", help="Only this suite, or the file of your own; repeatable.")
@click.option("--only", multiple=True, metavar="PATTERN", help="Only tests with such a name, such as 'test_j*'; repeatable.")
@click.option("--jobs", type=click.IntRange(1, 256), default=1, show_default=True, metavar="N", help="How many tests at a time.")
@click.option("--list", "list_", is_flag=True, help="Show the suites, and run nothing.")
@click.option("--afresh", is_flag=True, help="Begin with the first round, and forget what was found.")
@server_options
@rate_option
@click.option("--side-by-side", is_flag=True, help="With --load: all servers at the same time.")
@click.option("--in-turns", is_flag=True, help="With --load: one at a time, the others stopped (default: as the machine can hold).")
@click.option("--slice", "slice_", type=Duration(), help="With --load: a turn (default 5m, at most a sixth of a server's time).")
@click.option("--profile", is_flag=True, help="With --load: sample live blocks all the time, to tell leaks from fragmentation.")
@click.option("--no-html", is_flag=True, help="With --load: do not write the HTML report.")
@click.option("--wait", is_flag=True, help="With --load: wait while another experiment runs on this machine.")
@click.option("--json", "json_", is_flag=True, help="Print the answer as JSON.")
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE",
              help="Write the tables into a page, between its marks.")
@click.pass_context
def command(
    ctx: click.Context, /, libraries: tuple[str, ...], allocators: tuple[str, ...], seconds: float | None,
    programs: tuple[str, ...], only: tuple[str, ...], jobs: int, list_: bool, afresh: bool, json_: bool, markdown: Path | None,
    **server: Any,
) -> int:
    """Run whole test suites under a malloc library, or your server under its load for hours.

    Each test also runs under glibc. What fails under the library only, and fails again, is a difference. The suites are
    those of the programs themselves, thousands of tests. Packages and sources come when they are first needed.

    With --load your server runs under each allocator for a long time, and its load over and over. The answer is the slope
    of resident memory, and how latency drifts.

    The same command goes on where the last one ended. A NAME is an allocator of the catalog. A LIBRARY is a file of
    your own.

    Exit code 0: no difference. 1: there are some. 2: this is no library, has no malloc, or does not load. 3: no suite
    can run. 4: a server was given up.

    \b
    Examples:
      heapyard soak ./libmine.so
      heapyard soak jemalloc --program python --for 8h
      heapyard soak --list
      heapyard soak glibc jemalloc --for 8h --load 'wrk -t2 -c64 -d10s http://127.0.0.1:{port}/' -- ./server --port {port}
    """
    libraries = tuple(dict.fromkeys((*libraries, *split_list(allocators))))
    if (wish := _wish(ctx.meta["command"], libraries, seconds, afresh, json_, server)) is not None:
        for name, given in (("--program", programs), ("--only", only), ("--markdown", markdown), ("--list", list_)):
            if given:
                raise UsageError(f"{name} is for test suites, not for a server with --load")
        from .hours import soak_server

        return soak_server(*wish)
    from ..catalog.soak_suites import find_suites
    from ..execute.loop.signals import stop_on_signals

    suites = find_suites(programs)
    if list_:
        _list(suites, json_)
        return 0
    if markdown:
        from ..report.soak_markdown import around_marks

        around_marks(markdown)
    found = named_libraries(libraries, False)
    answers: list[SoakAnswer] = []
    with stop_on_signals() as stop:
        shops, broken = _ready(suites, only, stop)
        for allocator in found:
            if stop.is_set():
                break
            answers.append(_soak(allocator, shops, broken, seconds or TIME, jobs, afresh, stop))
            if not json_:
                from ..report.soak_table import print_answer
                from .consoles import answers as console

                print_answer(console(), answers[-1])
    if json_:
        from ..report.soak_json import soak_answer

        click.echo(json.dumps([soak_answer(answer) for answer in answers], indent=1))
    if stop.is_set():
        return EXIT_INTERRUPTED
    if markdown:
        from ..execute.environment import snapshot
        from ..report.soak_markdown import write_between_marks

        write_between_marks(markdown, answers, snapshot())
    if not shops:
        return EXIT_SETUP
    return EXIT_DIFFERENCE if any(answer.differences for answer in answers) else 0


def _wish(
    own: tuple[str, ...] | None, names: tuple[str, ...], seconds: float | None, afresh: bool, json_: bool, server: dict[str, Any],
) -> tuple[Load, Wish] | None:
    """A server and its load; None where suites are meant. UsageError for half of it."""
    from .hours import TIME as HOURS
    from .hours import Wish

    load = load_of(server)
    if server["settle"]:
        raise UsageError("--settle is for compare: a soak ends its server right after the load")
    asked = next((name for name in ("side_by_side", "in_turns", "slice_", "profile", "no_html", "wait") if server[name]), "")
    if load is None:
        if own is not None:
            raise UsageError("a command after -- is a server, whose load --load gives")
        if asked:
            raise UsageError(f"--{asked.strip('_').replace('_', '-')} is for a server, whose load --load gives")
        return None
    if own is None:
        raise UsageError("--load is for your own server, which goes after --")
    if server["side_by_side"] and server["in_turns"]:
        raise UsageError("--side-by-side and --in-turns exclude each other")
    mode = SIDE_BY_SIDE if server["side_by_side"] else IN_TURNS if server["in_turns"] else ""
    return load, Wish(names, own, seconds or HOURS, mode, server["slice_"] or 0.0, server["profile"], afresh, server["wait"], json_,
                      not server["no_html"])


def _list(suites: Sequence[Suite], json_: bool) -> None:
    from .consoles import answers

    if json_:
        click.echo(json.dumps([{"program": s.name, "title": s.title, "about": " ".join(s.about.split()), "source": s.source,
                                "packages": s.packages, "left_out": s.left_out} for s in suites], indent=1))
        return
    width = max(len(suite.name) for suite in suites)
    for suite in suites:
        answers().print(f"{suite.name:{width}}  {suite.title}", markup=False, soft_wrap=True)
        answers().print(f"{'':{width}}  {' '.join(suite.about.split())}", markup=False, soft_wrap=True)


def _ready(suites: Sequence[Suite], only: Sequence[str], stop: threading.Event) -> tuple[list[Workshop], list[tuple[Suite, str]]]:
    """The suites that can run, and why the others cannot. Ctrl-C ends it where it is."""
    from ..execute.soak.workshop import Workshop

    shops: list[Workshop] = []
    broken: list[tuple[Suite, str]] = []
    progress = StatusLine()
    with progress:
        for suite in suites:
            progress.tell(f"making the suite {suite.name} ready")
            try:
                shops.append(Workshop(suite, stop, progress.note, only))
            except SetupError as error:
                broken.append((suite, " ".join(filter(None, (f"{error.message}.", error.remedy)))))
                progress.note(f"{suite.name} does not run: {broken[-1][1]}")
            except KeyboardInterrupt:
                stop.set()
                break
    return shops, broken


def _soak(
    allocator: Allocator, shops: Sequence[Workshop], broken: Sequence[tuple[Suite, str]], seconds: float, jobs: int, afresh: bool,
    stop: threading.Event,
) -> SoakAnswer:
    from ..catalog.allocators import find_allocators
    from ..execute.soak.campaign import Campaign
    from ..model.places import soaked

    (glibc,) = find_allocators(["glibc"])
    campaign = Campaign(allocator, glibc, shops, broken, soaked(), stop, jobs, afresh)
    progress = _Progress(allocator.name, seconds)
    try:
        with progress:
            return campaign.run(seconds, progress.say, progress.found)
    finally:
        campaign.close()


class _Progress(StatusLine):
    """Which test runs, how many differ, and the time left."""

    def __init__(self, name: str, seconds: float):
        super().__init__()
        self._name, self._seconds, self._found = name, seconds, 0

    def found(self, what: str) -> None:
        self._found += 1
        self.note(f"{self._name}: {what}")

    def say(self, where: str) -> None:
        left = self._seconds - (time.monotonic() - self.began)
        eta = f", about {format_duration(left)} left" if left > 1 else ""
        self.tell(f"{self._name}: {where}; {counted(self._found, 'difference')}{eta}")

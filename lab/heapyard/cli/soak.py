# SPDX-License-Identifier: Apache-2.0
"""`heapyard soak`: whole test suites of real programs under a malloc library, beside the same under glibc."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model.errors import EXIT_DIFFERENCE, EXIT_INTERRUPTED, EXIT_SETUP, SetupError
from ..model.units import counted, format_duration
from .libraries import named_libraries
from .options import Duration
from .status_line import StatusLine

if TYPE_CHECKING:
    import threading

    from ..execute.soak.workshop import Workshop
    from ..model.allocator import Allocator
    from ..model.soak import SoakAnswer, Suite

TIME = 3600.0  # seconds, unless said otherwise


@click.command()
@click.argument("libraries", nargs=-1, metavar="[NAME|LIBRARY]...")
@click.option("--for", "seconds", type=Duration(), metavar="TIME",
              help="How long for each library, such as 10m or 8h. Default: 1 hour.")
@click.option("--program", "programs", multiple=True, metavar="NAME", help="Only this suite, or the file of your own; repeatable.")
@click.option("--only", multiple=True, metavar="PATTERN", help="Only tests with such a name, such as 'test_j*'; repeatable.")
@click.option("--jobs", type=click.IntRange(1, 256), default=1, show_default=True, metavar="N", help="How many tests at a time.")
@click.option("--list", "list_", is_flag=True, help="Show the suites, and run nothing.")
@click.option("--afresh", is_flag=True, help="Begin with the first round, and forget what was found.")
@click.option("--json", "json_", is_flag=True, help="Print the answer as JSON.")
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE",
              help="Write the tables into a page, between its marks.")
def command(
    libraries: tuple[str, ...], seconds: float | None, programs: tuple[str, ...], only: tuple[str, ...], jobs: int, list_: bool,
    afresh: bool, json_: bool, markdown: Path | None,
) -> int:
    """Run whole test suites of real programs under a malloc library, over and over.

    Each test also runs under glibc. What fails under the library only, and fails again, is a difference. The suites are
    those of the programs themselves, thousands of tests. Packages and sources come when they are first needed.

    The next command goes on with the tests that are left. A NAME is an allocator of the catalog. A LIBRARY is a file of
    your own.

    Exit code 0: no difference. 1: there are some. 2: this is no library, has no malloc, or does not load. 3: no suite
    can run.

    \b
    Examples:
      heapyard soak ./libmine.so
      heapyard soak jemalloc --program python --for 8h
      heapyard soak --list
    """
    from ..catalog.soak_suites import find_suites
    from ..execute.loop.signals import stop_on_signals

    suites = find_suites(programs)
    if list_:
        _list(suites, json_)
        return 0
    if markdown:
        from ..report.soak_markdown import around_marks

        around_marks(markdown)
    allocators = named_libraries(libraries, False)
    answers: list[SoakAnswer] = []
    with stop_on_signals() as stop:
        shops, broken = _ready(suites, only, stop)
        for allocator in allocators:
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

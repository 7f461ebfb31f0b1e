# SPDX-License-Identifier: Apache-2.0
"""`heapyard check`: is this malloc library safe to switch to?"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model.check import CheckCase, Found, ReportCard
from ..model.errors import EXIT_DIFFERENCE, EXIT_INTERRUPTED, UsageError
from ..model.units import format_duration
from .libraries import named_libraries
from .status_line import StatusLine

if TYPE_CHECKING:
    import threading

    from ..model.allocator import Allocator


@click.command()
@click.argument("libraries", nargs=-1, metavar="[NAME|LIBRARY]...")
@click.option("--all", "all_", is_flag=True, help="Every installed allocator.")
@click.option("--only", multiple=True, metavar="CASE", help="Only this group or case, such as memory or limits/data.")
@click.option("--quick", is_flag=True, help="Do less work per case: a first look, in seconds.")
@click.option("--instructions", is_flag=True, help="Count instructions of single calls on heaps of up to 10,000,000 blocks.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.svg",
              help="Draw the longest call over the size of the heap.")
@click.option("--change-system", is_flag=True,
              help="As root: change the system's settings while the cases about them run, then restore them.")
@click.option("--list", "list_", is_flag=True, help="List the cases, and stop.")
@click.option("--json", "json_", is_flag=True, help="Print what was found as JSON.")
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE.md",
              help="Also write the comparison and the failures between the two marks of this page.")
def command(
    libraries: tuple[str, ...], all_: bool, only: tuple[str, ...], quick: bool, instructions: bool, plot: Path | None,
    change_system: bool, list_: bool, json_: bool, markdown: Path | None,
) -> int:
    """Say whether a malloc library is safe to switch to.

    The cases come from the tests of seven allocators: conformance, forks, threads that end, libraries that are loaded and
    unloaded, memory that runs out, memory held in hard patterns, requests to the kernel, the longest single call. A NAME is
    an allocator of the catalog. A LIBRARY is a file of your own.

    Exit code 0: all cases pass. 1: one fails. 2: this is no library, has no malloc, or does not load.

    \b
    Examples:
      heapyard check ./libmine.so
      heapyard check jemalloc mimalloc --quick
      heapyard check --all --only memory
    """
    from ..execute.check_cases import chosen_cases
    from ..execute.loop.signals import stop_on_signals

    cases = chosen_cases(only)
    if list_:
        _list(cases, json_)
        return 0
    if quick and instructions:
        raise UsageError("--quick asks for less work and --instructions for more; give one of them")
    if instructions and not only:
        cases = [case for case in cases if case.group == "latency"]
    if change_system:
        from ..execute.system_settings import require_permission

        require_permission([case.setting for case in cases if case.setting])
    if markdown:
        from ..report.check_markdown import around_marks

        around_marks(markdown)
    allocators = named_libraries(libraries, all_)
    amount = "quick" if quick else "deep" if instructions else "usual"
    with stop_on_signals() as stop:
        cards = _run(allocators, cases, amount, stop, change_system)
        if not only and not quick:
            _remember(cards)
        _print(cards, json_)
        if markdown and not stop.is_set():
            from ..execute.environment import snapshot
            from ..report.check_markdown import write_between_marks

            write_between_marks(markdown, cards, snapshot(), amount)
        if plot:
            from ..report.figures.calls import write_calls

            write_calls(plot, cards)
    if stop.is_set():
        return EXIT_INTERRUPTED
    return EXIT_DIFFERENCE if any(card.failed for card in cards) else 0


def _list(cases: Sequence[CheckCase], json_: bool) -> None:
    from .consoles import answers

    if json_:
        listed = [
            {"case": c.label, "about": c.about, "information": c.information, "setting": c.setting} for c in cases
        ]
        click.echo(json.dumps(listed, indent=1))
        return
    width = max(len(case.label) for case in cases)
    for case in cases:
        answers().print(f"{case.label:{width}}  {case.about}", soft_wrap=False)


def _run(
    allocators: Sequence[Allocator], cases: Sequence[CheckCase], amount: str, stop: threading.Event,
    change_system: bool = False,
) -> list[ReportCard]:
    """The cards; what was found until `stop` was set is kept, and the last card says that it is not complete."""
    from ..execute.check_cases import run_case

    cards = []
    # A KeyboardInterrupt raised by Python itself is lost if it comes inside a destructor or a weak reference's callback.
    progress = _Progress([case.label for _ in allocators for case in cases])
    with progress:
        for allocator in allocators:
            found: list[Found] = []
            try:
                for case in cases:
                    progress.say(f"{allocator.name}: {case.label}")
                    found.append(run_case(case, allocator, amount, stop=stop, change_system=change_system))
                    progress.advance()
                    if stop.is_set():
                        raise KeyboardInterrupt
            except KeyboardInterrupt:
                cards.append(ReportCard(allocator, tuple(found), complete=False))
                stop.set()
                return cards
            cards.append(ReportCard(allocator, tuple(found)))
    return cards


def _remember(cards: Sequence[ReportCard]) -> None:
    from ..store.checked import remember

    for card in cards:
        if card.complete:
            remember(card)


def _print(cards: Sequence[ReportCard], json_: bool) -> None:
    from ..execute.huge_pages import mode

    if json_:
        from ..report.check_json import check_answer

        click.echo(json.dumps(check_answer(cards, mode()), indent=1))
        return
    from ..report.report_card import print_card, print_comparison
    from ..model.huge_pages import in_words
    from ..report.words import sentence
    from .consoles import answers

    console = answers()
    if pages := in_words(mode()):
        console.print(f"{sentence(pages)}.")
    for card in cards:
        print_card(console, card, alone=len(cards) == 1)
    if len(cards) > 1:
        print_comparison(console, cards)


class _Progress(StatusLine):
    """Which case it is, and the time left: a case takes what it took under the allocators before, else what cases take here."""

    def __init__(self, cases: Sequence[str]):
        super().__init__()
        self._cases, self._took = cases, dict[str, list[float]]()
        self._done, self._since = 0, time.monotonic()

    def advance(self) -> None:
        now = time.monotonic()
        self._took.setdefault(self._cases[self._done], []).append(now - self._since)
        self._done, self._since = self._done + 1, now

    def say(self, what: str) -> None:
        left = self._left()
        eta = f", about {format_duration(left)} left" if left > 1 else ""
        self.tell(f"case {self._done + 1}/{len(self._cases)}{eta}: {what}")

    def _left(self) -> float:
        """O(cases that are left)."""
        usual = {case: sum(took) / len(took) for case, took in self._took.items()}
        other = sum(usual.values()) / max(len(usual), 1)
        return sum(usual.get(case, other) for case in self._cases[self._done :])

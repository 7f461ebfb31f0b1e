# SPDX-License-Identifier: Apache-2.0
"""`heapyard fuzz`: random calls of the malloc interface, judged one by one."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model.errors import EXIT_DIFFERENCE, EXIT_INTERRUPTED, UsageError
from ..model.units import counted, format_duration
from .libraries import named_libraries
from .options import Duration
from .status_line import StatusLine

if TYPE_CHECKING:
    import threading

    from ..model.allocator import Allocator
    from ..model.fuzz import FuzzAnswer

TIME = 120.0  # seconds, unless said otherwise


@click.command()
@click.argument("libraries", nargs=-1, metavar="[NAME|LIBRARY]...")
@click.option("--all", "all_", is_flag=True, help="Every installed allocator.")
@click.option("--for", "seconds", type=Duration(), metavar="TIME",
              help="How long for each library, such as 30s or 8h. Default: 2 minutes.")
@click.option("--operations", type=click.IntRange(min=1), metavar="N", help="How many operations for each library.")
@click.option("--threads", type=click.IntRange(1, 16), metavar="N", help="Always so many threads. Default: 1 to 8 at random.")
@click.option("--replay", "file", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE",
              help="Only play the operations of this file.")
@click.option("--afresh", is_flag=True, help="Begin with the first round, and forget what was found.")
@click.option("--json", "json_", is_flag=True, help="Print what was found as JSON.")
def command(
    libraries: tuple[str, ...], all_: bool, seconds: float | None, operations: int | None, threads: int | None, file: Path | None,
    afresh: bool, json_: bool,
) -> int:
    """Look for faults of a malloc library with random calls of its whole interface.

    Programs of one to eight threads call malloc and its family, free each other's blocks, fork, end threads, run out of
    address space, and are interrupted by signals. Each result is judged: alignment, overlap, contents, errno. What finds a
    fault is made as short as it can be, and kept as a file to play again and as a program in C.

    The next command goes on with further rounds. A NAME is an allocator of the catalog. A LIBRARY is a file of your own.

    Exit code 0: nothing was found. 1: something was. 2: this is no library, has no malloc, or does not load.

    \b
    Examples:
      heapyard fuzz ./libmine.so
      heapyard fuzz jemalloc mimalloc3 --for 8h
      heapyard fuzz ./libmine.so --replay overlap-realloc-7.operations
    """
    from ..execute.loop.signals import stop_on_signals

    if seconds is None and operations is None:
        seconds = TIME
    if file and (afresh or threads):
        raise UsageError("--replay plays the operations of a file; it goes with neither --afresh nor --threads")
    allocators = named_libraries(libraries, all_)
    found = []
    with stop_on_signals() as stop:
        for allocator in allocators:
            found.append(_fuzz(allocator, stop, seconds, operations, threads, file, afresh))
            if not json_:
                _print(allocator, found[-1])
            if stop.is_set():
                break
    if json_:
        click.echo(json.dumps([_as_json(answer) for answer in found], indent=1))
    if stop.is_set():
        return EXIT_INTERRUPTED
    return EXIT_DIFFERENCE if any(answer.findings for answer in found) else 0


def _folder(allocator: Allocator) -> Path:
    from ..model.places import fuzzed

    return fuzzed() / allocator.name


def _fuzz(
    allocator: Allocator, stop: threading.Event, seconds: float | None, operations: int | None, threads: int | None,
    file: Path | None, afresh: bool,
) -> FuzzAnswer:
    from ..execute.fuzz.campaign import Campaign
    from ..execute.scratch import ScratchFolder
    from ..model.places import corpus
    from ..report.fuzz_c import as_c

    if file:
        with ScratchFolder() as folder:
            return Campaign(allocator, folder, stop).run(0.0, None, [file])
    folder = _folder(allocator)
    if afresh:
        for path in [*folder.glob("*.operations"), *folder.glob("*.c"), folder / "state.json"]:
            path.unlink(missing_ok=True)
    campaign = Campaign(allocator, folder, stop, threads)
    progress = _Progress(allocator.name, seconds, operations, campaign.operations)
    with progress:
        answer = campaign.run(seconds, operations, (), progress.say, sorted(corpus().glob("*.operations")))
    for finding in answer.findings:
        if finding.operations:
            (folder / f"{finding.name}.c").write_text(as_c(finding, allocator.name, str(allocator.library), campaign.child_of))
    return answer


def _print(allocator: Allocator, answer: FuzzAnswer) -> None:
    from .consoles import answers

    console = answers()
    before = f", {answer.operations:,} with those of earlier commands" if answer.operations > answer.now else ""
    result = counted(len(answer.findings), "finding") if answer.findings else "nothing was found"
    style = "bold red" if answer.findings else "bold green"
    console.print(f"[{style}]{answer.name}: {result}[/] in {answer.now:,} operations ({format_duration(answer.seconds)}){before}.",
                  soft_wrap=True)
    for finding in answer.findings:
        violation = finding.violation
        console.print(f"  {violation.kind}: {violation.text}", markup=False, soft_wrap=True)
        if finding.operations:
            again = f"{finding.shown} of {finding.tried} runs found it again"
            console.print(f"    {counted(len(finding.operations), 'operation')}; {again}: {_folder(allocator) / finding.name}.c",
                          markup=False, soft_wrap=True)
        else:
            console.print(f"    it did not come again; the round was {' '.join(finding.round.words)}", markup=False, soft_wrap=True)
    if not answer.complete:
        console.print("It was interrupted; the same command goes on.")


def _as_json(answer: FuzzAnswer) -> dict[str, object]:
    findings: Sequence[dict[str, object]] = [
        {**asdict(f.violation), "round": f.round.words, "operations": [str(op) for op in f.operations], "shown": f.shown,
         "tried": f.tried, "after": f.played} for f in answer.findings
    ]
    return {"name": answer.name, "operations": answer.operations, "operations_now": answer.now, "seconds": round(answer.seconds, 3),
            "complete": answer.complete, "findings": findings}


class _Progress(StatusLine):
    """How many operations and findings, and the time left."""

    def __init__(self, name: str, seconds: float | None, operations: int | None, before: int):
        super().__init__()
        self._name, self._seconds, self._operations, self._before = name, seconds, operations, before

    def say(self, done: int, findings: int, finding: str = "") -> None:
        if finding:
            self.note(f"{self._name}: {finding}")
            return
        gone = time.monotonic() - self.began
        lefts = [self._seconds - gone] if self._seconds else []
        if self._operations and done > self._before:
            lefts.append(gone / (done - self._before) * (self._operations - (done - self._before)))
        left = f", about {format_duration(min(lefts))} left" if lefts and min(lefts) > 1 else ""
        self.tell(f"{self._name}: {done:,} operations, {counted(findings, 'finding')}{left}")

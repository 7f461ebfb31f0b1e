# SPDX-License-Identifier: Apache-2.0
"""`heapyard soak --load`: servers of the user's own under their load for hours."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, HeapyardError, UsageError
from .consoles import answers, remark
from .status_line import StatusLine

if TYPE_CHECKING:
    from ..catalog.server_command import Load
    from ..model.hours import HoursAnswer

TIME = 3600.0  # seconds, unless said otherwise
PAGE = "report.html"
SAMPLES = 2400  # of each server over the run
INTERVALS = (0.1, 10.0)  # seconds between samples at least and at most
REWRITE = 600.0  # seconds between two pages at least: drawing takes two seconds of a processor
DEFAULT = ("glibc",)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line says beside the load."""

    names: tuple[str, ...]
    command: tuple[str, ...]
    seconds: float
    mode: str
    slice_: float
    profile: bool
    afresh: bool
    wait: bool
    json: bool
    html: bool


def soak_server(load: Load, wish: Wish) -> int:
    """The whole verb with a load; its exit code."""
    from ..api.hours import answer_of_run, folder_of, forget, period_of
    from ..catalog.program_command import program_from_command
    from ..execute.environment import snapshot
    from ..execute.hours.campaign import NOTES, Campaign
    from ..execute.hours.launching import Conditions
    from ..execute.hours.notebook import read_notebook
    from ..execute.loop.signals import stop_on_signals
    from ..store.locks import ExperimentLock, MachineLock
    from .libraries import named_libraries

    program = program_from_command(wish.command, load=load)
    allocators = named_libraries(wish.names or DEFAULT, False)
    if load.port and len(allocators) > 1:
        raise UsageError("--port is one port, and servers under several allocators must each have one",
                         remedy="Write {port} in the server's command and the load.")
    folder = folder_of(program, load, allocators, wish.profile)
    lock, machine = ExperimentLock(folder), MachineLock()
    try:
        if wish.afresh:
            forget(folder)
        known = read_notebook(folder / NOTES)
        began = max((server.seconds for server in known.servers.values()), default=0.0)
        if known.complete and wish.seconds <= known.seconds:
            remark("this run is complete; a longer --for goes on with it, --afresh begins anew")
            return _show(answer_of_run(folder, snapshot()), folder, wish)
        machine.acquire(f"soak of {program.name}", wait=wish.wait,
                        waiting=lambda who: remark(f"waiting for another experiment ({who})"))
        if known.commands:
            remark(f"going on with a run that has {_duration(began)} so far; its record is {folder / NOTES}")
        with stop_on_signals() as stop, StatusLine() as progress:
            interval = min(max(wish.seconds / SAMPLES, INTERVALS[0]), INTERVALS[1])
            conditions = Conditions(program, folder, interval, wish.profile, stop)
            campaign = Campaign(allocators, conditions, wish.seconds, wish.mode, wish.slice_)
            period = period_of(wish.seconds)
            campaign.run(progress.tell, progress.note, lambda: _write(folder), period if wish.html and period >= REWRITE else 0.0)
        code = _show(answer_of_run(folder, snapshot()), folder, wish)
        return EXIT_INTERRUPTED if stop.is_set() else code
    finally:
        machine.release()
        lock.release()


def _write(folder: Path) -> None:
    """The page by now. A run goes on though it cannot be written."""
    from ..api.hours import answer_of_run
    from ..execute.environment import snapshot
    from ..report.hours_page import write_hours

    try:
        write_hours(folder / PAGE, answer_of_run(folder, snapshot()))
    except HeapyardError as error:
        remark(error.message)


def _show(answer: HoursAnswer, folder: Path, wish: Wish) -> int:
    if wish.html:
        from ..report.hours_page import write_hours

        write_hours(folder / PAGE, answer)
    if wish.json:
        from ..report.hours_json import hours_answer

        click.echo(json.dumps(hours_answer(answer), indent=1))
    else:
        from ..report.hours_table import print_hours

        print_hours(answers(), answer)
        if wish.html:
            answers().print(f"Report: {folder / PAGE}", markup=False, soft_wrap=True)
    return EXIT_FAILED if any(server.noted.failed for server in answer.servers) else EXIT_OK


def _duration(seconds: float) -> str:
    from ..model.units import format_duration

    return format_duration(seconds)

# SPDX-License-Identifier: Apache-2.0
"""`heapyard wrap`: run a command under an allocator, or say how to switch to it for good."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import NoReturn

import click

from ..model.allocator import Allocator
from ..model.errors import UsageError
from ..model.switching import NOT_FOR_ALL, environment_of, ways
from .libraries import named_libraries


@click.command()
@click.argument("allocator", metavar="NAME|LIBRARY")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--json", "json_", is_flag=True, help="Print the ways as JSON.")
def command(allocator: str, words: tuple[str, ...], json_: bool) -> int:
    """Run a command under an allocator, or say how to switch to it for good.

    With a command, this process becomes the command: its input, output, signals and exit code are its own. Without one, you
    get the lines to paste for a shell, systemd, a Dockerfile and Kubernetes, and how to undo each. NAME is an allocator of
    the catalog, also with settings, such as jemalloc:narenas=2. LIBRARY is a file of your own.

    \b
    Examples:
      heapyard wrap jemalloc -- redis-server --port 7000
      heapyard wrap jemalloc
      heapyard wrap ./libmine.so -- ./server
    """
    [chosen] = named_libraries([allocator], all_=False)
    environment = environment_of(chosen)
    if words and json_:
        raise UsageError("--json prints how to switch; leave it out to run the command")
    if words:
        _become(list(words), environment)
    _print(chosen, environment, json_)
    return 0


def _become(words: list[str], environment: dict[str, str]) -> NoReturn:
    """Replace this process by the command; UsageError if it cannot run, or if no library can be injected into it."""
    from ..catalog.executable_check import executable_flaw

    found = shutil.which(words[0])
    if found is None:
        raise UsageError(f"there is no program '{words[0]}'")
    if flaw := executable_flaw(Path(found)):
        raise UsageError(". ".join(filter(None, flaw)))
    own = dict(environment)
    if "LD_PRELOAD" in own and (before := os.environ.get("LD_PRELOAD")):
        own["LD_PRELOAD"] += f":{before}"
    os.execve(found, words, {**os.environ, **own})


def _print(allocator: Allocator, environment: dict[str, str], json_: bool) -> None:
    from ..store.checked import remembered

    found = ways(environment, allocator.provenance)
    checked = remembered(allocator)
    if json_:
        click.echo(json.dumps({
            "allocator": allocator.name, "version": allocator.version, "library": str(allocator.library),
            "environment": environment, "checked": None if checked is None else
            {"day": checked.day, "judged": checked.judged, "noted": checked.noted, "failed": checked.failed},
            "ways": [{"place": way.place, "lines": way.lines, "undo": way.undo} for way in found],
        }, indent=1))
        return
    if not environment:
        click.echo(f"{allocator.name} is what programs are linked with: there is nothing to switch.")
        return
    own = allocator.provenance.startswith("user:")
    name = shlex.quote(str(allocator.library) if own else allocator.name)
    click.echo(name if own else f"{allocator.name}: {allocator.title} {allocator.version}")
    click.echo(f"{checked}." if checked else f"Not checked on this machine yet: heapyard check {name}")
    for way in found:
        click.echo(f"\n{way.place}:")
        for line in way.lines:
            click.echo(f"    {line}")
        click.echo(f"  To undo: {way.undo}.")
    click.echo(f"\n{NOT_FOR_ALL}.")

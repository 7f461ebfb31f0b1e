# SPDX-License-Identifier: Apache-2.0
"""`heapyard allocators`: what can be compared here, and installing more of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ..model.allocator import Allocator
from ..model.errors import EXIT_FAILED, EXIT_SETUP, UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ..catalog.peers.install import Outcome

_COLOURS = {"installed": "green", "available": "default", "unavailable": "dim", "broken": "red"}
_WIDE = 120  # columns from which a library's path gets a column of its own
_PIPE_WIDTH = 10_000  # a pipe gets whole rows, never folded ones


@click.group(invoke_without_command=True)
@click.option("--long", "long_", is_flag=True, help="Add each library's digest and build-id, and its environment.")
@click.option("--json", "json_", is_flag=True, help="Print everything that is known, as JSON.")
@click.pass_context
def command(ctx: click.Context, long_: bool, json_: bool) -> None:
    """List, install and describe allocators.

    For an allocator of your own, use --allocator NAME=LIBRARY with the verbs that compare, or a table in the file that
    docs/allocators.md describes.
    """
    if ctx.invoked_subcommand is not None:
        return
    from ..catalog.allocators import load_allocators

    allocators = list(load_allocators().values())
    if json_:
        click.echo(json.dumps([_everything(allocator) for allocator in allocators], indent=1))
        return
    console = _console()
    draw = _print_wide if console.width >= _WIDE else _print_narrow
    draw(console, allocators, long_)


@command.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--default", "default", is_flag=True, help="Glibc and the distribution's packages.")
@click.option("--all", "all_", is_flag=True, help="The whole catalog; some are compiled, which takes minutes.")
def install(names: tuple[str, ...], default: bool, all_: bool) -> int:
    """Install allocators. If one cannot be had, say why and continue with the rest.

    Exit code 0 if all are there, 3 if you have to install a package yourself, 4 otherwise.
    """
    from ..catalog.peers.files import load_peers
    from ..catalog.peers.install import install_allocators

    wanted = [*names, *(peer.name for peer in load_peers().values() if all_ or (default and peer.default))]
    if not wanted:
        raise UsageError("name the allocators to install, or give --default or --all")
    console = _console()
    with console.status("") as status:  # drawn on a terminal only

        def report(name: str, step: str) -> None:
            status.update(f"{name}: {step}")
            if not console.is_terminal:
                click.echo(f"{name}: {step}")

        outcomes = install_allocators(wanted, report)
    return _summarise(console, outcomes)


def _summarise(console: Console, outcomes: list[Outcome]) -> int:
    from rich.text import Text

    from ..catalog import debian

    for outcome in outcomes:
        mark = Text("installed  ", "green") if outcome.ok else Text("failed     ", "red")
        console.print(mark + Text(f"{outcome.name}: {outcome.reason}", "default"))
    packages = list(dict.fromkeys(package for outcome in outcomes for package in outcome.packages))
    if packages:
        console.print(Text(f"Run: {debian.install_command(packages)}", "bold"), soft_wrap=True)
        return EXIT_SETUP
    return 0 if all(outcome.ok for outcome in outcomes) else EXIT_FAILED


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


def _print_wide(console: Console, allocators: list[Allocator], long_: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("allocator", "version", "status", "obtained from", "library"):
        table.add_column(title, overflow="fold", no_wrap=title in ("allocator", "version", "status"))
    for allocator in allocators:
        cells = (allocator.provenance or "-", "\n".join(_library(allocator, long_)))
        table.add_row(allocator.name, allocator.version or "-", _status(allocator), *(Text(cell) for cell in cells))
    console.print(table)


def _print_narrow(console: Console, allocators: list[Allocator], long_: bool) -> None:
    """Two lines for each: a narrow terminal has no room for a path beside the rest."""
    from rich.padding import Padding
    from rich.text import Text

    names = max(len(allocator.name) for allocator in allocators)
    versions = max(len(allocator.version) for allocator in allocators)
    for allocator in allocators:
        name, version = f"{allocator.name:<{names}}", f"{allocator.version:<{versions}}"
        head = Text.assemble((name, "bold"), f"  {version}  ", _status(allocator))
        source = " ".join(allocator.provenance.split()[:2])  # without its version, which --json has
        console.print(head.append(f"{'':<{12 - len(allocator.status)}}{source}"), no_wrap=True, overflow="ellipsis")
        for line in _library(allocator, long_):
            console.print(Padding(Text(line, "dim", overflow="fold"), (0, 0, 0, 2)))


def _status(allocator: Allocator) -> Text:
    from rich.text import Text

    return Text(allocator.status, _COLOURS[allocator.status])


def _library(allocator: Allocator, long_: bool) -> list[str]:
    """The library's path, or why there is none."""
    if allocator.status != "installed":
        return [allocator.reason]
    return [str(allocator.library), *(_details(allocator) if long_ else ())]


def _details(allocator: Allocator) -> list[str]:
    lines = [f"sha256 {allocator.sha256}"] if allocator.sha256 else []
    lines += [f"build-id {allocator.build_id}"] if allocator.build_id else []
    return lines + [f"{name}={value}" for name, value in allocator.env.items()]


def _everything(allocator: Allocator) -> dict[str, object]:
    from ..catalog.allocators import build_record

    fields = {name: getattr(allocator, name) for name in Allocator.__slots__}
    return fields | {"library": str(allocator.library) if allocator.library else None, "build": build_record(allocator)}

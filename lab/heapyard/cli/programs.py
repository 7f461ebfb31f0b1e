# SPDX-License-Identifier: Apache-2.0
"""`heapyard programs`: the real programs allocators are compared on, and installing them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from ..model.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from ..catalog.program_card import ProgramCard

_COLOURS = {"installed": "green", "available": "default", "unavailable": "red"}
_PIPE_WIDTH = 10_000  # a pipe gets whole rows, never folded ones


@click.group(invoke_without_command=True)
@click.option("--json", "json_", is_flag=True, help="Print everything that is known, as JSON.")
@click.pass_context
def command(ctx: click.Context, json_: bool) -> None:
    """List, install and describe the real programs.

    For a program of your own, write its command after -- with the verbs that compare, or a table in the file that
    docs/programs.md describes.
    """
    if ctx.invoked_subcommand is not None:
        return
    from ..catalog.programs import load_programs

    cards = list(load_programs().values())
    if json_:
        click.echo(json.dumps([_everything(card) for card in cards], indent=1))
    else:
        _print_list(_console(), cards)


@command.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "all_", is_flag=True, help="Every program of the catalog.")
def install(names: tuple[str, ...], all_: bool) -> None:
    """Install programs with the system's package manager.

    Exit code 3 if only an administrator can install them; Heapyard then prints the one command that does it.
    """
    from ..catalog.programs import install_programs, load_programs

    wanted = list(names) or ([card.name for card in load_programs().values() if not card.own] if all_ else [])
    if not wanted:
        raise UsageError("name the programs to install, or give --all")
    console = _console()
    with console.status("") as status:  # drawn on a terminal only

        def report(step: str) -> None:
            status.update(step)
            if not console.is_terminal:
                click.echo(step)

        install_programs(wanted, report)
    console.print(f"installed: {', '.join(wanted)}")


@command.command()
@click.argument("name")
@click.option("--json", "json_", is_flag=True, help="Print everything that is known, as JSON.")
def show(name: str, json_: bool) -> None:
    """Describe one program: its input, exact command line and answer. NAME:full shows the longer size."""
    from ..catalog.programs import find_card, split_size

    base, size = split_size(name)
    card = find_card(base)
    if size not in card.sizes:
        raise UsageError(f"program '{base}' has no size '{size}'; it has {' and '.join(card.sizes)}")
    if json_:
        click.echo(json.dumps(_everything(card), indent=1))
    else:
        _print_card(_console(), card, size)


def _print_list(console: Console, cards: list[ProgramCard]) -> None:
    from rich.table import Table
    from rich.text import Text

    from ..catalog.measured import measured

    rows = []
    for card in cards:
        facts = measured(card.name)
        times = [f"{facts[size]['wall']:.1f} s" if size in facts else "" for size in ("quick", "full")]
        memory = f"{facts['quick']['peak_rss'] / 2**20:.0f} MiB" if "quick" in facts else ""
        rows.append((f"{'*' if card.quick else ' '} {card.name}", card.title, *times, memory, card.status))
    titles = ("program", "what it does", "quick", "full", "memory", "status")
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    # On a narrow terminal the description alone gives way.
    widths[1] = max(12, min(widths[1], console.width - sum(widths) + widths[1] - 2 * (len(widths) - 1)))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, width in zip(titles, widths, strict=True):
        numeric = title in ("quick", "full", "memory")
        table.add_column(title, justify="right" if numeric else "left", no_wrap=True, overflow="ellipsis", width=width)
    for *cells, status in rows:
        table.add_row(*map(Text, cells), Text(status, _COLOURS[status]))
    console.print(table)
    console.print("* in the default set. Times, and peak RSS of quick, measured once under glibc.", style="dim")
    for card in cards:
        if card.status != "installed":
            console.print(f"{card.name}: {card.reason}", style="dim")


def _print_card(console: Console, card: ProgramCard, size: str) -> None:
    from rich.text import Text

    from ..catalog.measured import measured
    from ..model.units import format_bytes, format_duration

    console.print(Text.assemble((card.name, "bold"), f"  {card.title}"))
    for line in card.about.strip().splitlines():
        console.print(Text(f"  {line}"))
    rows = [("status", f"{card.status}: {card.reason}" if card.reason else card.status)]
    rows += [("default set", "yes" if card.quick else "no"), ("threads", str(card.threads))]
    if card.packages:
        rows.append(("packages", ", ".join(card.packages)))
    if card.generator:
        options = "".join(f" --{name} {value}" for name, value in card.sizes[size].input.items())
        rows.append(("input", f"programs/generators/{card.generator}.py{options}"))
    rows += [*_exact_lines(card, size), ("answer", _answer_in_words(card))]
    facts = measured(card.name).get(size)
    if facts:
        time, memory = format_duration(facts["wall"]), format_bytes(facts["peak_rss"])
        rows.append(("measured", f"{time}, peak RSS {memory}, {facts['mallocs']:,} calls of malloc (under glibc)"))
    for title, text in rows:
        console.print(Text.assemble((f"{title:<12}", "bold"), text), soft_wrap=True)


def _exact_lines(card: ProgramCard, size: str) -> Iterable[tuple[str, str]]:
    """The command line, then those of a server; {input}, {dir} and {port} are left as they are."""
    from ..catalog.programs import command_lines

    lines = {title: shlex.join(words) for title, words in command_lines(card, size).items()}
    added = " ".join(f"{name}={shlex.quote(value)}" for name, value in card.env.items())
    lines["command"] = f"{added} {lines['command']}".strip() + (f" < {card.stdin}" if card.stdin else "")
    if card.argv0:
        lines["command"] += f"  (started under the name {card.argv0})"
    return lines.items()


def _answer_in_words(card: ProgramCard) -> str:
    answer = card.answer
    what = {
        "same": "its output must be the one recorded",
        "consistent": "its output must be what it is under the baseline",
        "ignore": "its output is not looked at",
    }[answer.output]
    if card.server and card.server.client_answer:
        what = "its client's output must match what is recorded"
    files = f", so must its files {', '.join(answer.files)}" if answer.files else ""
    return f"exit code {answer.exit_code}; {what}{files}"


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


def _everything(card: ProgramCard) -> dict[str, Any]:
    from dataclasses import asdict

    from ..catalog.measured import measured

    return asdict(card) | {"cwd": str(card.cwd) if card.cwd else None, "measured": measured(card.name)}

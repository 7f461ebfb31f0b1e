# SPDX-License-Identifier: Apache-2.0
"""The manual page and the shells' completions, made from the command line itself: python -m heapyard.cli.manual FOLDER."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from .. import __version__
from ..model import errors
from .main import cli

# Where a system looks for each, below its folder `share`.
SHELLS: dict[str, type[ShellComplete]] = {
    "bash-completion/completions/heapyard": BashComplete,
    "fish/vendor_completions.d/heapyard.fish": FishComplete,
    "zsh/site-functions/_heapyard": ZshComplete,
}
MAN_PAGE = "man/man1/heapyard.1"
_CODES = (
    (errors.EXIT_OK, "The request was carried out."),
    (errors.EXIT_DIFFERENCE, "gate, diff or check found what it was to find."),
    (errors.EXIT_USAGE, "The request itself is wrong."),
    (errors.EXIT_SETUP, "Something must be installed first."),
    (errors.EXIT_FAILED, "The experiment could not be carried out."),
    (errors.EXIT_INTERRUPTED, "Ctrl-C; what was measured is kept."),
)


def files() -> dict[str, str]:
    """Everything that is installed below `share`, by path."""
    return {MAN_PAGE: man_page(), **{path: completion(shell) for path, shell in SHELLS.items()}}


def completion(shell: type[ShellComplete]) -> str:
    """A script that asks heapyard itself what may come next: it stays right whatever options there are."""
    class Installed(shell):  # type: ignore[misc, valid-type]
        @staticmethod
        def _check_version() -> None:  # of the shell that made the script, which is another one
            pass

    script = Installed(cli, {}, "heapyard", "_HEAPYARD_COMPLETE").source()
    first, rest = ("", script) if not script.startswith("#") else script.split("\n", 1)  # compdef must come first
    notice = "# SPDX-License-Identifier: Apache-2.0\n# Made by python -m heapyard.cli.manual.\n"
    return (f"{first}\n" if first else "") + notice + rest.strip("\n") + "\n"


def man_page() -> str:
    """Every verb and option, in the language of man."""
    lines = [
        '.\\" SPDX-License-Identifier: Apache-2.0', '.\\" Made by python -m heapyard.cli.manual.',
        f'.TH HEAPYARD 1 "" "heapyard {__version__}" "User Commands"',
        ".SH NAME", f"heapyard \\- {_text(_sentence(cli.help))}",
        ".SH SYNOPSIS", ".B heapyard", "[OPTIONS] VERB [ARGUMENT]...",
        ".SH DESCRIPTION", _text(cli.help or ""), _text(cli.epilog or ""),
        ".SH OPTIONS", *_options(cli, click.Context(cli, info_name="heapyard")),
        ".SH VERBS",
    ]
    for context, command in _commands(cli, click.Context(cli, info_name="heapyard")):
        lines += [f'.SS "{context.command_path}"', ".nf", *map(_text, _usage(command, context)), ".fi"]
        lines += [*_help(command), *_options(command, context)]
    lines += [".SH EXIT STATUS"]
    for code, meaning in _CODES:
        lines += [".TP", f".B {code}", _text(meaning)]
    return "\n".join(lines) + "\n"


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Context, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        own = click.Context(command, parent=context, info_name=name)
        yield own, command
        if isinstance(command, click.Group):
            yield from _commands(command, own)


def _usage(command: click.Command, context: click.Context) -> list[str]:
    formatter = click.HelpFormatter(width=200)
    command.format_usage(context, formatter)
    return [line.removeprefix("Usage: ").strip() for line in formatter.getvalue().splitlines() if line.strip()]


def _help(command: click.Command) -> Iterator[str]:
    """The paragraphs; those that click keeps as they stand are kept here as well."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield from (".PP", ".nf", *(_text(line) for line in paragraph.splitlines()[1:]), ".fi")
        else:
            yield from (".PP", _text(" ".join(paragraph.split())))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option) and "--help" not in parameter.opts:
            yield from (".TP", f".B {_text(record[0])}", _text(record[1]))


def _sentence(text: str | None) -> str:
    first = (text or "").strip().split("\n\n")[0].strip().rstrip(".")
    return first[:1].lower() + first[1:]


def _text(words: str) -> str:
    """Words that man shows as they are."""
    escaped = words.replace("\\", "\\e").replace("-", "\\-").replace("\b", "")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


def main(folder: Path) -> None:
    """Writes all of it below `folder`."""
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

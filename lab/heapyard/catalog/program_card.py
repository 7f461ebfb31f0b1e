# SPDX-License-Identifier: Apache-2.0
"""The card of a real program, as a TOML file or the user's catalog states it (fields: docs/programs.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from ..model.program import Answer, Output, Server
from .load_generators import GENERATORS
from .server_command import signal_named
from .toml_file import TomlTable

Area = Literal["compiler", "documents", "interpreter", "database", "server", "solver", "text", "tool", "threads", "own"]
Status = Literal["installed", "available", "unavailable"]
AREAS: tuple[Area, ...] = get_args(Area)

# Replaced when the program is prepared; {dir} and {port} only at each trial.
PLACES = ("input", "programs", "bin", "python")
LATER = ("dir", "port")
SERVER_COMMANDS = ("client", "ready", "warm_up", "stop")  # fields of a server's table, in the order in which one reads them

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True, slots=True)
class Size:
    """How much work: `values` fill the command's placeholders, `input` are options of the generator."""

    name: str
    values: dict[str, str] = field(default_factory=dict)
    input: dict[str, int] = field(default_factory=dict)
    digest: str = ""  # sha256 of the right answer, "" if it is only compared between launches


@dataclass(frozen=True, slots=True)
class ProgramCard:
    """A program of the catalog before it is prepared; commands still hold placeholders.

    `quick` marks the balanced default set. `status` "available": its packages can be installed; "unavailable": `reason`
    says what is missing.
    """

    name: str
    title: str
    area: str
    command: tuple[str, ...]
    sizes: dict[str, Size]
    about: str = ""
    packages: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()  # executables it needs besides those its commands name
    files: tuple[str, ...] = ()  # patterns of files that it needs besides; `a|b` as with tools
    modules: tuple[str, ...] = ()  # PyPI's, which {python} must have
    quick: bool = False
    threads: int = 1
    generator: str = ""
    stdin: str = ""
    argv0: str = ""
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    answer: Answer = Answer()
    server: Server | None = None
    own: bool = False  # from the user's catalog
    status: Status = "installed"
    reason: str = ""


def read_card(name: str, table: TomlTable, *, own: bool = False) -> ProgramCard:
    """The card in `table`, every field checked; UsageError naming file, line and field."""
    sizes = _read_sizes(table)
    answer = _read_answer(table, sizes)
    server = _read_server(table)
    card = ProgramCard(
        name=name,
        title=table.string("title", name if own else ...),
        about=table.string("about", "" if own else ...),
        area=table.choice("area", AREAS, "own" if own else ...),
        command=table.strings("command"),
        sizes=sizes,
        packages=table.strings("packages", ()),
        tools=table.strings("tools", ()),
        files=table.strings("files", ()),
        modules=table.strings("modules", ()),
        quick=table.boolean("quick", False),
        threads=table.integer("threads", 1, least=1),
        generator=table.string("generator", ""),
        stdin=table.string("stdin", ""),
        argv0=table.string("argv0", ""),
        env=table.mapping("env"),
        cwd=_read_folder(table),
        answer=answer,
        server=server,
        own=own,
    )
    table.finish()
    _check_commands(table, card)
    return card


def fill(text: str, values: dict[str, str]) -> str:
    """`text` with every {name} of `values` replaced; others stay. O(text)."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def _read_sizes(table: TomlTable) -> dict[str, Size]:
    given = table.table("sizes")
    if given is None:
        return {"quick": Size("quick")}
    sizes = {}
    for name in given.keys():
        if name not in ("quick", "full"):
            given.fail(name, "is no size; sizes are quick and full")
        size = given.table(name)
        assert size is not None
        options = size.table("input")
        values = {}
        for key in size.keys():
            if key not in ("input", "digest"):
                values[key] = str(size.get(key, (int, str), "a whole number or a string"))
        sizes[name] = Size(
            name=name,
            values=values,
            input={key: options.integer(key) for key in options.keys()} if options else {},
            digest=size.string("digest", ""),
        )
        if sizes[name].digest and not re.fullmatch(r"[0-9a-f]{64}", sizes[name].digest):
            size.fail("digest", "must be a sha256 in hexadecimal, 64 digits")
        size.finish()
    if "quick" not in sizes:
        table.fail("sizes", "must have a table 'quick'")
    return {name: sizes[name] for name in ("quick", "full") if name in sizes}


def _read_answer(table: TomlTable, sizes: dict[str, Size]) -> Answer:
    given = table.table("answer")
    if given is None:
        return Answer()
    output = given.choice("output", get_args(Output), "consistent")
    answer = Answer(exit_code=given.integer("exit_code", 0), output=output, files=given.strings("files", ()))
    given.finish()
    if output == "same":
        for name, size in sizes.items():
            if not size.digest:
                given.fail("output", f"is 'same', but sizes.{name} records no digest")
    return answer


def _read_server(table: TomlTable) -> Server | None:
    given = table.table("server")
    if given is None:
        return None
    stop_signal = given.string("stop_signal", "TERM")
    server = Server(
        client=given.strings("client"),
        stop=given.strings("stop", ()),
        stop_signal=signal_named(stop_signal),
        ready=given.strings("ready", ()),
        ready_seconds=float(given.number("ready_seconds", 10.0)),
        warm_up=given.strings("warm_up", ()),
        client_answer=given.string("client_answer", ""),
        generator=given.choice("load_generator", tuple(GENERATORS), ""),
    )
    for name in SERVER_COMMANDS:
        if not getattr(server, name) and (name == "client" or given.has(name)):
            given.fail(name, "must name a program")
    if not server.stop_signal:
        given.fail("stop_signal", f"must be the name of a signal, such as INT, not '{stop_signal}'")
    try:
        re.compile(server.client_answer)
    except (re.error, OverflowError, RecursionError) as error:
        given.fail("client_answer", f"is not a regular expression: {error}")
    given.finish()
    return server


def _read_folder(table: TomlTable) -> Path | None:
    return table.place("cwd").resolve() if table.string("cwd", "") else None


def _check_commands(table: TomlTable, card: ProgramCard) -> None:
    if not card.command:
        table.fail("command", "must name a program")
    if relative := next((path for entry in card.files for path in entry.split("|") if not path.startswith("/")), ""):
        table.fail("files", f"must be absolute paths, not '{relative}'")
    texts = [("command", card.command), ("stdin", (card.stdin,)), ("env", tuple(card.env.values()))]
    if card.server:
        words = [word for name in SERVER_COMMANDS for word in getattr(card.server, name)]
        texts += [("server", (*words, card.server.client_answer))]
    for size in card.sizes.values():
        for field_name, strings in texts:
            _check_placeholders(table, field_name, strings, size)


def _check_placeholders(table: TomlTable, field_name: str, strings: Iterable[str], size: Size) -> None:
    known = {*PLACES, *LATER, *size.values}
    for name in (name for text in strings for name in _PLACEHOLDER.findall(text)):
        if name not in known:
            names = ", ".join(f"{{{known_name}}}" for known_name in sorted(known))
            problem = f"has a placeholder {{{name}}} that size {size.name} does not know"
            table.fail(field_name, f"{problem}; known are {names}")

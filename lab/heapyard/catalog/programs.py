# SPDX-License-Identifier: Apache-2.0
"""The catalog of real programs: what there is, what is installed, and making one ready to launch."""

from __future__ import annotations

import difflib
import glob
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Literal

from ..model import places
from ..model.errors import SetupError, UsageError
from ..model.program import Program
from . import debian
from .executable_check import executable_flaw
from .program_card import SERVER_COMMANDS, ProgramCard, Status, fill, read_card
from .program_inputs import ensure_input, input_digest
from .toml_file import read_toml

SizeName = Literal["quick", "full"]
Report = Callable[[str], None]


def load_programs() -> dict[str, ProgramCard]:
    """Every program of the catalog, then of the user's own file, by name; each says whether it can run here. O(files).

    UsageError for a malformed file.
    """
    cards = {path.stem: read_card(path.stem, read_toml(path)) for path in sorted(_folder().glob("*.toml"))}
    own = places.user_catalog()
    if own.exists():
        table = read_toml(own).table("program")
        for name, entry in (table.tables() if table else {}).items():
            if name in cards:
                entry.fail("title", f"is of a program '{name}', and the catalog has one of that name; choose another")
            cards[name] = read_card(name, entry, own=True)
    return {name: _with_status(card) for name, card in cards.items()}


def split_size(name: str) -> tuple[str, str]:
    """`gs:full` as ("gs", "full"); without a size, "quick"."""
    base, _, size = name.partition(":")
    return base, size or "quick"


def prepare_program(name: str, size: SizeName = "quick", report: Report = lambda line: None) -> Program:
    """The program ready to launch: executables found, its input generated, all paths absolute. `name` may be `gs:full`.

    UsageError for an unknown name or size, or a program that is not installed (with the command that installs it).
    """
    base, _, named_size = name.partition(":")
    card = find_card(base)
    wanted = named_size or size
    if wanted not in card.sizes:
        raise UsageError(f"program '{base}' has no size '{wanted}'; it has {' and '.join(card.sizes)}")
    if card.status != "installed":
        remedy = f"Run: heapyard programs install {base}" if card.packages else None
        raise UsageError(f"program '{base}' cannot run here: {card.reason}", remedy=remedy)
    return _ready(card, wanted, report)


def find_card(name: str) -> ProgramCard:
    """The card of that name; UsageError, with names it resembles, if there is none."""
    cards = load_programs()
    if name not in cards:
        near = difflib.get_close_matches(name, cards, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "`heapyard programs` lists those there are"
        raise UsageError(f"there is no program '{name}'; {hint}")
    return cards[name]


def install_programs(names: Sequence[str], report: Report) -> None:
    """Install the packages of the named programs; `report` gets a line per step.

    UsageError for an unknown name; SetupError when a package cannot be had, after everything else was installed.
    """
    cards = [find_card(name) for name in dict.fromkeys(split_size(name)[0] for name in names)]
    debian.install([package for card in cards for package in card.packages], report)
    for card in (find_card(card.name) for card in cards):
        if card.status != "installed":
            raise SetupError(f"program '{card.name}' still cannot run here: {card.reason}")


def command_lines(card: ProgramCard, size: str) -> dict[str, tuple[str, ...]]:
    """`command`, and those of a server that it has, with what is known before the input exists filled in."""
    values = {"programs": str(_folder()), "bin": str(places.native("x").parent), "python": sys.executable}
    values |= card.sizes[size].values
    commands = {"command": card.command}
    if card.server:
        commands |= {name: words for name in SERVER_COMMANDS if (words := getattr(card.server, name))}
    return {name: _located(tuple(fill(word, values) for word in words)) for name, words in commands.items()}


def _folder() -> Path:
    return places.root() / "programs"


def _ready(card: ProgramCard, size: str, report: Report) -> Program:
    amount = card.sizes[size]
    values = dict(amount.values)
    source = []
    if card.generator:
        folder = ensure_input(card.generator, amount.input, report)
        values["input"] = str(folder)
        options = "".join(f" {name} {value}" for name, value in amount.input.items())
        source = [f"input {card.generator}{options}, sha256 {input_digest(folder)[:16]}"]

    def filled(words: Iterable[str]) -> tuple[str, ...]:
        return tuple(fill(word, values) for word in words)

    commands = command_lines(card, size)
    known = values | {"programs": str(_folder())}
    server = card.server and replace(
        card.server,
        client=filled(commands["client"]),
        ready=filled(commands.get("ready", ())),
        warm_up=filled(commands.get("warm_up", ())),
        stop=filled(commands.get("stop", ())),
        client_answer=fill(card.server.client_answer, known),
    )
    stdin = Path(fill(card.stdin, known)) if card.stdin else None
    if stdin and not stdin.is_file():
        raise UsageError(f"program '{card.name}': its standard input {stdin} is not a file")
    return Program(
        name=card.name if size == "quick" else f"{card.name}:{size}",
        title=card.title,
        command=filled(commands["command"]),
        about=card.about,
        stdin=stdin,
        env={name: fill(text, known) for name, text in card.env.items()},
        cwd=card.cwd,
        inherit_env=card.own,
        argv0=card.argv0,
        threads=card.threads,
        answer=replace(card.answer, digest=amount.digest),
        server=server,
        provenance="; ".join([*_packages_in_words(card), *source]),
    )


def _packages_in_words(card: ProgramCard) -> list[str]:
    versions = [(package.split("|")[0], debian.version(package)) for package in card.packages]
    wheels = [f"PyPI {module} {metadata.version(module)}" for module in card.modules]
    return [*(f"Debian {package} {version}" for package, version in versions if version), *wheels] or [card.command[0]]


def _located(words: tuple[str, ...]) -> tuple[str, ...]:
    """The command with its first word replaced by the first of its alternatives (`a|b`) that is an executable."""
    found = next(filter(None, map(shutil.which, words[0].split("|"))), words[0])
    return (str(Path(found).absolute()) if "/" in found else found, *words[1:])


def _has(module: str) -> bool:
    try:
        return bool(metadata.version(module))
    except metadata.PackageNotFoundError:
        return False


def _with_status(card: ProgramCard) -> ProgramCard:
    commands = command_lines(card, "quick")
    words = [*(command[0] for command in commands.values()), *card.tools]
    lacking = [word for word in words if not any(map(shutil.which, word.split("|")))]
    lacking += [entry for entry in card.files if not any(map(glob.glob, entry.split("|")))]
    if absent := [module for module in card.modules if not _has(module)]:
        return replace(card, status="unavailable", reason=f"Heapyard's Python environment has no {' and no '.join(absent)}")
    if not lacking:
        flaw = executable_flaw(Path(commands["command"][0]))
        return replace(card, status="unavailable", reason=flaw[0]) if flaw else card
    if any(Path(word).parent == places.native("x").parent for word in lacking):
        return replace(card, status="unavailable", reason=f"it has not been built. {places.repair()}")
    names = " and ".join(" or ".join(word.split("|")) for word in lacking)
    status: Status = "available" if card.packages else "unavailable"
    where = "" if "/" in names else " in PATH"
    return replace(card, status=status, reason=f"there is no {names}{where}")

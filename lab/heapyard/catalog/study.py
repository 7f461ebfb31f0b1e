"""Study files: an experiment written down in TOML. Names are looked up later; here every field gets its type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..model.errors import UsageError
from ..model.units import parse_duration, parse_percent
from .toml_file import TomlTable, read_toml
from .treatments import check_levels, parse_cpus

CHECKS = ("output", "exit")


@dataclass(frozen=True, slots=True)
class Command:
    """A program of one's own; `check` "output" compares what it prints with the baseline's, "exit" the code alone."""

    argv: tuple[str, ...]
    stdin: Path | None = None
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    expect_exit: int = 0
    check: str = "output"


@dataclass(frozen=True, slots=True)
class Library:
    """An allocator of one's own."""

    path: Path
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper found, to be held against the result."""

    text: str
    source: str = ""
    metric: str = ""
    workload: str = ""
    treatment: str = ""
    ratio: tuple[float, float] | None = None  # bounds of the treatment's ratio to the baseline


@dataclass(frozen=True, slots=True)
class Study:
    """An experiment in the user's words. Empty `programs` and `allocators` mean the usual ones.

    `settings` holds the fields of model.experiment.Settings that were given; `factors` the levels in the order written.
    """

    title: str = ""
    programs: tuple[str, ...] = ()
    allocators: tuple[str, ...] = ()
    baseline: str = "glibc"
    settings: dict[str, Any] = field(default_factory=dict)
    factors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    commands: dict[str, Command] = field(default_factory=dict)
    libraries: dict[str, Library] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    text: str = ""


def read_study(path: Path) -> Study:
    """The study in a file; UsageError names file, line and field. Relative paths are taken from the file's folder."""
    top = read_toml(path)
    table = top.table("study")
    if table is None:
        top.fail("study", "is missing; a study file begins with a table [study]")
    study = Study(
        title=table.string("title", path.stem),
        programs=table.strings("programs", ()),
        allocators=table.strings("allocators", ()),
        baseline=table.string("baseline", "glibc"),
        settings=_settings(table),
        factors=_factors(top.table("factors")),
        commands={name: _command(t) for name, t in _named(top, "program").items()},
        libraries={name: _library(t) for name, t in _named(top, "allocator").items()},
        claims=_claims(top),
        text=path.read_text(encoding="utf-8"),
    )
    table.finish()
    top.finish()
    return study


def _settings(table: TomlTable) -> dict[str, Any]:
    found: dict[str, Any] = {
        "precision": _parsed(table, "precision", parse_percent),
        "budget": _parsed(table, "budget", parse_duration),
        "timeout": _parsed(table, "timeout", parse_duration),
        "cpus": _parsed(table, "pin", parse_cpus),
        "blocks": table.integer("blocks", None, least=1),
        "pilot_blocks": table.integer("pilot", None, least=2),
        "max_blocks": table.integer("max_blocks", None, least=2),
        "seed": table.integer("seed", None, least=0),
        "count_syscalls": table.boolean("count_syscalls", None),
        "count_instructions": table.boolean("count_instructions", None),
    }
    margins = table.table("margins")
    if margins is not None:
        found["margin_time"] = _parsed(margins, "time", parse_percent)
        found["margin_memory"] = _parsed(margins, "memory", parse_percent)
        margins.finish()
    return {name: value for name, value in found.items() if value is not None}


def _parsed(table: TomlTable, name: str, parse: Callable[[str], Any]) -> Any:
    """A field written as text ("5m", "1%") or as a plain number; None when absent."""
    value = table.get(name, (str, int, float), "text such as in the guide, or a number", None)
    if value is None:
        return None
    try:
        return parse(str(value))
    except UsageError as error:
        table.fail(name, f"is wrong: {error.message}")


def _factors(table: TomlTable | None) -> dict[str, tuple[str, ...]]:
    if table is None:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for name in table.keys():
        inner = table.table(name) if name == "env" else None
        for key in inner.keys() if inner else [name]:
            factor = f"env.{key}" if inner else name
            holder = inner or table
            found[factor] = holder.strings(key)
            try:
                check_levels(factor, found[factor])
            except UsageError as error:
                holder.fail(key, f"is wrong: {error.message}")
    table.finish()
    return found


def _named(top: TomlTable, kind: str) -> dict[str, TomlTable]:
    table = top.table(kind)
    return table.tables() if table else {}


def _command(table: TomlTable) -> Command:
    folder = table.path.absolute().parent
    argv = table.strings("command")
    if not argv:
        table.fail("command", "is empty; it must be a list of the program and its arguments")
    stdin, cwd = table.string("stdin", None), table.string("cwd", None)
    command = Command(
        argv=argv,
        stdin=folder / Path(stdin).expanduser() if stdin else None,
        env=table.mapping("env"),
        cwd=folder / Path(cwd).expanduser() if cwd else folder,
        expect_exit=table.integer("expect_exit", 0, least=0),
        check=table.string("check", "output", choices=CHECKS),
    )
    table.finish()
    return command


def _library(table: TomlTable) -> Library:
    library = Library(table.path.absolute().parent / Path(table.string("library")).expanduser(), table.mapping("env"))
    table.finish()
    return library


def _claims(top: TomlTable) -> tuple[Claim, ...]:
    """`[[claims]]`: a sentence, and if it can be checked the metric, the treatment and bounds of its ratio."""
    found = []
    for table in top.array("claims"):
        ratio = table.get("ratio", list, "two numbers, the least and the greatest", None)
        if ratio is not None and (
            len(ratio) != 2 or not all(type(r) in (int, float) for r in ratio) or ratio[0] > ratio[1]
        ):
            table.fail("ratio", "must be two numbers, the least and the greatest")
        found.append(
            Claim(
                text=table.string("text"),
                source=table.string("source", ""),
                metric=table.string("metric", ""),
                workload=table.string("workload", ""),
                treatment=table.string("treatment", ""),
                ratio=(float(ratio[0]), float(ratio[1])) if ratio else None,
            )
        )
        table.finish()
    return tuple(found)

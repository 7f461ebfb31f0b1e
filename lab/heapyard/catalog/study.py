# SPDX-License-Identifier: Apache-2.0
"""Study files: an experiment written down in TOML. Names are looked up later; here every field gets its type."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from ..model.claim import Claim
from ..model.errors import UsageError
from ..model.experiment import Interleave
from ..model.figure import Figure
from ..model.units import parse_duration, parse_percent
from .formula import holds
from .fraction import Fraction, fraction_of, read_share
from .mutators import PROCESSORS, Value, level_text
from .program_command import Check
from .server_command import Load
from .study_server import read_load
from .study_findings import read_claims, read_figures
from .study_fleet import read_fleet
from .study_simulated import read_simulated
from .toml_file import TomlTable, read_toml
from .treatments import TREATMENT_FACTORS, check_levels, parse_cpus

CHECKS: tuple[Check, ...] = get_args(Check)
MOST_VARIANTS = 1000  # of one allocator


@dataclass(frozen=True, slots=True)
class Command:
    """A program of one's own; `check` "output" compares what it prints with the baseline's, "exit" the code alone."""

    argv: tuple[str, ...]
    stdin: Path | None = None
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    expect_exit: int = 0
    check: Check = "output"
    load: Load | None = None  # it is a server


@dataclass(frozen=True, slots=True)
class Library:
    """An allocator of one's own."""

    path: Path
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OwnTreatment:
    """An allocator under options of the mutator that no other treatment has, such as ACDC's placement compact."""

    allocator: str
    options: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Study:
    """An experiment in the user's words. Empty `programs` and `allocators` mean the usual ones.

    `settings` holds the fields of model.experiment.Settings that were given; `factors` the levels of the factors that
    make treatments, in the order written.
    """

    title: str = ""
    programs: tuple[str, ...] = ()
    allocators: tuple[str, ...] = ()
    if_installed: tuple[str, ...] = ()  # further allocators, on machines that have them
    baseline: str = "glibc"
    settings: dict[str, Any] = field(default_factory=dict)
    factors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    commands: dict[str, Command] = field(default_factory=dict)
    libraries: dict[str, Library] = field(default_factory=dict)
    mutator: str = ""
    options: dict[str, Value] = field(default_factory=dict)  # of the mutator, in every workload
    levels: dict[str, tuple[Value, ...]] = field(default_factory=dict)  # of the factors that tell workloads apart
    constraints: tuple[str, ...] = ()  # conditions that a combination of levels must meet to be a workload
    fraction: Fraction | None = None  # of the combinations of levels; None: all
    skipped: tuple[str, ...] = ()  # levels this machine cannot have, one sentence each
    treatments: dict[str, OwnTreatment] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    claims: tuple[Claim, ...] = ()
    scale: str = ""
    text: str = ""


def read_study(path: Path, scale: str | None = None, *, elsewhere: bool = False) -> Study:
    """The study in a file at one of its scales; UsageError names file, line and field.

    Relative paths are taken from the file's folder. A table [scales.NAME] holds what is different at that scale; without
    `scale` the study's own choice applies. `elsewhere`: other machines measure, and this one's processors do not count.
    """
    top, chosen = _at_scale(read_toml(path), scale)
    table = top.table("study")
    if table is None:
        top.fail("study", "is missing; a study file begins with a table [study]")
    table.get("scale", str, "the name of a scale", "")
    mutator = table.string("mutator", "")
    factors, levels = _factors(top.table("factors"), bool(mutator))
    fleet = read_fleet(top.table("fleet"))
    simulated = read_simulated(table, top.table("simulated"))
    skipped: tuple[str, ...] = ()
    if not (elsewhere or fleet.engine or simulated.wanted):
        levels, skipped = _on_this_machine(levels)
    constraints, fraction = _design(top.table("design"), levels)
    settings = _settings(table) | ({"fleet": fleet} if fleet.engine else {})
    settings |= {"simulated": simulated} if simulated.wanted else {}
    if levels and settings.get("blocks") == 1:
        table.fail("blocks", "is 1: a study without replication has nothing to estimate its noise from; give 2 or more")
    options = top.table("options")
    if options is not None and not mutator:
        top.fail("options", "are of a mutator, and the study names none")
    study = Study(
        title=table.string("title", path.stem),
        programs=table.strings("programs", ()),
        allocators=(*table.strings("allocators", ()), *_nested(top.table("nested"))),
        if_installed=table.strings("if_installed", ()),
        baseline=table.string("baseline", "glibc"),
        settings=settings,
        factors=factors,
        commands={name: _command(t) for name, t in _named(top, "program").items()},
        libraries={name: _library(t) for name, t in _named(top, "allocator").items()},
        mutator=mutator,
        options=_options(options),
        levels=levels,
        constraints=constraints,
        fraction=fraction,
        skipped=skipped,
        treatments={name: _own_treatment(t, bool(mutator)) for name, t in _named(top, "treatments").items()},
        figures=read_figures(top, levels),
        claims=read_claims(top, {"program": table.strings("programs", ()), **factors, **levels}),
        scale=chosen,
        text=path.read_text(encoding="utf-8"),
    )
    if mutator and study.programs:
        table.fail("programs", "and a mutator do not go together; write two studies")
    table.finish()
    top.finish()
    return study


def _at_scale(top: TomlTable, wanted: str | None) -> tuple[TomlTable, str]:
    """The file's top table at the wanted scale, and the scale's name ("" when the file has none)."""
    scales = top.table("scales")
    study = top.table("study")
    names = tuple(scales.keys()) if scales else ()
    if not scales or not names or study is None:
        if wanted is not None:
            raise UsageError(f"{top.path}: has no scales, so there is no scale '{wanted}'")
        return top, ""
    own = study.choice("scale", names, names[0])
    chosen = own if wanted is None else wanted
    if chosen not in names:
        raise UsageError(f"{top.path}: there is no scale '{chosen}'; there are {', '.join(names)}")
    found = scales.table(chosen)
    assert found is not None
    return top.without("scales").overlaid(found), chosen


def _settings(table: TomlTable) -> dict[str, Any]:
    found: dict[str, Any] = {
        "precision": _parsed(table, "precision", parse_percent),
        "budget": _parsed(table, "budget", parse_duration),
        "timeout": _parsed(table, "timeout", parse_duration),
        "cpus": _parsed(table, "pin", parse_cpus),
        "blocks": table.integer("blocks", None, least=1),
        "pilot_blocks": table.integer("pilot", None, least=2),
        "max_blocks": table.integer("max_blocks", None, least=2),
        "interleave": table.choice("interleave", get_args(Interleave), None),
        "slice": _parsed(table, "slice", parse_duration),
        "seed": table.integer("seed", None, least=0),
        "count_syscalls": table.boolean("count_syscalls", None),
        "count_instructions": table.boolean("count_instructions", None),
        "time_metric": table.string("time", None),
        "memory_metric": table.string("memory", None),
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


def _factors(table: TomlTable | None, mutator: bool) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[Value, ...]]]:
    """Levels of the factors that make treatments (thp, cpus, env.NAME), and of those that make workloads of a mutator."""
    made: dict[str, tuple[str, ...]] = {}
    told_apart: dict[str, tuple[Value, ...]] = {}
    for name in table.keys() if table else ():
        assert table is not None
        inner = table.table(name) if name == "env" else None
        if mutator and name not in ("env", *TREATMENT_FACTORS):
            told_apart[name] = _levels(table, name)
            continue
        for key in inner.keys() if inner else [name]:
            factor = f"env.{key}" if inner else name
            holder = inner or table
            made[factor] = holder.strings(key)
            try:
                check_levels(factor, made[factor])
            except UsageError as error:
                holder.fail(key, f"is wrong: {error.message}")
    if table:
        table.finish()
    return made, told_apart


def _levels(table: TomlTable, name: str) -> tuple[Value, ...]:
    levels = table.get(name, list, "a list of levels")
    if not levels:
        table.fail(name, "has no levels")
    for level in levels:
        if level == "":
            table.fail(name, "has an empty level")
        if not isinstance(level, (str, int, float)):
            table.fail(name, f"must be a list of numbers, strings or true and false, not {level!r}")
    if len({str(level) for level in levels}) < len(levels):
        table.fail(name, "has the same level twice")
    return tuple(levels)


def _on_this_machine(levels: dict[str, tuple[Value, ...]]) -> tuple[dict[str, tuple[Value, ...]], tuple[str, ...]]:
    """Without numbers of processors that the machine does not have; and what was left out."""
    there = len(os.sched_getaffinity(0))
    missing = [level for level in levels.get(PROCESSORS, ()) if isinstance(level, int) and level > there]
    if not missing:
        return levels, ()
    kept = tuple(level for level in levels[PROCESSORS] if level not in missing)
    left_out = ", ".join(map(str, missing))
    told = f"processors {left_out}: this machine has {there}; those cells of the design are missing"
    return {**levels, PROCESSORS: kept or (there,)}, (told,)


def _design(
    table: TomlTable | None, levels: dict[str, tuple[Value, ...]]
) -> tuple[tuple[str, ...], Fraction | None]:
    """`[design]`: `constraints`, conditions on the levels of factors, and `fraction` of their combinations."""
    if table is None:
        return (), None
    found = table.strings("constraints", ())
    first = {name: level_text(values[0]) for name, values in levels.items()}
    for constraint in found:
        try:
            holds(constraint, first)
        except UsageError as error:
            table.fail("constraints", f"is wrong: {error.message}")
    share = table.string("fraction", "")
    if share and found:
        table.fail("fraction", "and constraints do not go together: a constraint would break the balance of the fraction")
    fraction = None
    if share:
        try:
            fraction = fraction_of(read_share(share), levels)
        except UsageError as error:
            table.fail("fraction", f"is wrong: {error.message}")
    table.finish()
    return found, fraction


def _nested(table: TomlTable | None) -> list[str]:
    """`[nested.ALLOCATOR]`: factors that only one allocator has, its options; every combination of their levels is a
    variant of it, `jemalloc:narenas=1,tcache=false`."""
    variants = []
    for allocator, inner in table.tables().items() if table else ():
        assert table is not None
        factors = {name: _levels(inner, name) for name in inner.keys()}
        if not factors:
            inner.fail(allocator, "has no factors")
        inner.finish()
        if math.prod(map(len, factors.values())) > MOST_VARIANTS:
            table.fail(allocator, f"makes more than {MOST_VARIANTS} variants")
        for chosen in itertools.product(*factors.values()):
            options = ",".join(f"{name}={level_text(level)}" for name, level in zip(factors, chosen, strict=True))
            variants.append(f"{allocator}:{options}")
    return variants


def _options(table: TomlTable | None) -> dict[str, Value]:
    kinds = (str, int, float, bool)
    return {name: table.get(name, kinds, "a number, a string, true or false") for name in table.keys()} if table else {}


def _own_treatment(table: TomlTable, mutator: bool) -> OwnTreatment:
    if not mutator:
        table.fail("options", "are of a mutator, and the study names none")
    found = OwnTreatment(table.string("allocator"), _options(table.table("options")))
    table.finish()
    return found


def _named(top: TomlTable, kind: str) -> dict[str, TomlTable]:
    table = top.table(kind)
    return table.tables() if table else {}


def _command(table: TomlTable) -> Command:
    argv = table.strings("command")
    if not argv:
        table.fail("command", "is empty; it must be a list of the program and its arguments")
    command = Command(
        argv=argv,
        stdin=table.place("stdin") if table.string("stdin", "") else None,
        env=table.mapping("env"),
        cwd=table.place("cwd", ""),
        expect_exit=table.integer("expect_exit", 0, least=0),
        check=table.choice("check", CHECKS, "output"),
        load=read_load(table, argv),
    )
    table.finish()
    return command


def _library(table: TomlTable) -> Library:
    library = Library(table.place("library"), table.mapping("env"))
    table.finish()
    return library

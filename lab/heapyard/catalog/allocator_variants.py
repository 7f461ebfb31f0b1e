# SPDX-License-Identifier: Apache-2.0
"""Variants: `glibc:tcache=0`, `jemalloc:narenas=1,dirty_decay_ms=0` as the environment each allocator understands.

An allocator silently ignores an option it does not know, and the variant would be measured as if it were one; so every
name is checked: against the machine's own list for glibc, otherwise against the list in the allocator's file and the
library itself, since options come and go between versions.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from ..model.allocator import Allocator
from ..model.errors import UsageError
from .elf import elf_facts
from .toml_file import TomlTable


@dataclass(frozen=True, slots=True)
class OptionForm:
    """How options become environment variables: all in one `variable`, or one variable each, `prefix` + KEY.

    `aliases` maps short names to full ones. `known` names those of any version; it is empty for glibc, whose dynamic
    linker is asked. `reader` is the library that reads them, beside the one that is injected; "" if that is the one.
    """

    variable: str = ""
    separator: str = ","
    assign: str = ":"
    prefix: str = ""
    aliases: tuple[tuple[str, str], ...] = ()
    known: tuple[str, ...] = ()
    reader: str = ""
    tunables: bool = False


def read_options(table: TomlTable | None) -> OptionForm | None:
    """The `[options]` table of an allocator's file; UsageError names the field that is wrong."""
    if table is None:
        return None
    form = OptionForm(
        variable=table.string("variable", ""),
        separator=table.string("separator", ","),
        assign=table.string("assign", ":"),
        prefix=table.string("prefix", ""),
        aliases=tuple(table.mapping("aliases").items()),
        known=table.strings("known", ()),
        reader=table.string("reader", ""),
        tunables=table.boolean("tunables", False),
    )
    table.finish()
    if bool(form.variable) == bool(form.prefix):
        table.fail("variable", "or 'prefix' must be given, and not both")
    if not form.known and not form.tunables:
        table.fail("known", "is missing; it must list the options the allocator knows")
    return form


def split_name(name: str) -> tuple[str, dict[str, str]]:
    """`glibc:tcache=0,arena_max=1` as ("glibc", {"tcache": "0", "arena_max": "1"}); UsageError when malformed."""
    base, colon, text = name.partition(":")
    options: dict[str, str] = {}
    for part in text.split(",") if colon else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise UsageError(f"'{name}': write options as {base}:option=value,option=value")
        if key in options:
            raise UsageError(f"'{name}' gives option '{key}' twice")
        options[key] = value
    return base, options


def apply_options(allocator: Allocator, form: OptionForm | None, options: dict[str, str], name: str) -> Allocator:
    """The variant `name` of `allocator`. UsageError for an option the allocator does not have.

    Costs a read of the library, or for glibc a run of its dynamic linker to list the tunables: milliseconds.
    """
    if not options:
        return allocator
    if form is None:
        raise UsageError(f"{allocator.name} has no options known here; your own catalog file can set its variables")
    full = {dict(form.aliases).get(key, key): value for key, value in options.items()}
    if form.tunables:
        full = _check_tunables(full, allocator, form)
    else:
        _check_known(full, allocator, form)
    env = dict(allocator.env)
    if form.variable:
        pairs = [f"{key}{form.assign}{value}" for key, value in full.items()]
        for value in full.values():
            if form.separator in value:
                raise UsageError(f"'{name}': '{form.separator}' cannot be part of a value in {form.variable}")
        env[form.variable] = form.separator.join([env[form.variable], *pairs] if form.variable in env else pairs)
    else:
        env |= {form.prefix + key.upper(): value for key, value in full.items()}
    return replace(allocator, name=name, title=f"{allocator.title}, {name.partition(':')[2]}", env=env)


def known_options(allocator: Allocator, form: OptionForm) -> list[str]:
    """Those options of the list that this version of the library holds the names of."""
    assert allocator.library is not None
    file = allocator.library.with_name(form.reader) if form.reader else allocator.library
    content = file.read_bytes().lower()
    return [option for option in form.known if option.encode() in content]


def _version(allocator: Allocator) -> str:
    return f"{allocator.name} {allocator.version}".rstrip()


def _check_known(full: dict[str, str], allocator: Allocator, form: OptionForm) -> None:
    known = known_options(allocator, form)
    for key in full:
        if key not in known:
            names = sorted({*known, *dict(form.aliases)})
            raise UsageError(f"{_version(allocator)} has no option '{key}'", remedy=f"It has {', '.join(names)}.")


def _check_tunables(full: dict[str, str], allocator: Allocator, form: OptionForm) -> dict[str, str]:
    """Full tunable names; those without a dot are malloc's."""
    ranges = list_tunables(allocator.library)
    named = {key if "." in key else f"glibc.malloc.{key}": value for key, value in full.items()}
    for key, value in named.items():
        if key not in ranges:
            own = [tunable.removeprefix("glibc.malloc.") for tunable in ranges if tunable.startswith("glibc.malloc.")]
            names = sorted({*own, *dict(form.aliases)})
            raise UsageError(
                f"{_version(allocator)} has no option '{key.removeprefix('glibc.malloc.')}'",
                remedy=f"It has {', '.join(names)}, and other tunables under their full names (glibc.pthread.rseq=0).",
            )
        low, high = ranges[key]
        if high is not None and low is not None:
            _check_range(key, value, low, high)
    return named


def _check_range(key: str, value: str, low: int, high: int) -> None:
    # Out of range, glibc keeps its default without a word.
    try:
        number = int(value, 0)
    except ValueError:
        raise UsageError(f"{key}={value}: the value must be a whole number") from None
    if not low <= number <= high:
        raise UsageError(f"{key}={value}: the value must lie between {low} and {high}")


def list_tunables(libc: Path | None) -> dict[str, tuple[int | None, int | None]]:
    """Every tunable of the machine's glibc with its (lowest, highest) value, (None, None) for one that is text.

    UsageError when this glibc is too old to list them (before 2.33) or there is none.
    """
    loader = elf_facts(libc).interpreter if libc else ""
    done = None
    if loader:
        done = subprocess.run([loader, "--list-tunables"], capture_output=True, text=True, check=False)
    if done is None or done.returncode != 0:
        raise UsageError("this machine's glibc cannot list its tunables, so that glibc variants cannot be checked")
    found: dict[str, tuple[int | None, int | None]] = {}
    for line in done.stdout.splitlines():
        name, _, rest = line.partition(":")
        limits = re.search(r"min: (\w+), max: (\w+)", rest)
        found[name.strip()] = (int(limits[1], 0), int(limits[2], 0)) if limits else (None, None)
    return found

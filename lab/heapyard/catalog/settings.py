# SPDX-License-Identifier: Apache-2.0
"""The files `peers/settings/*.toml`: documented settings of allocators, with levels that are sane and where they are described."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..model import places
from ..model.allocator import Allocator
from ..model.errors import UsageError
from ..model.tuning import Setting, Space
from .allocators import options_of
from .toml_file import TomlTable, read_toml

HUGE_PAGES = "huge pages"  # transparent ones, at least where a program asks for them
_NEEDS = ("", HUGE_PAGES)
_MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def spaces_of(allocators: Sequence[Allocator], own: Iterable[str] = (), *, strict: bool = True) -> tuple[Space, ...]:
    """What can be searched of each allocator here. `own`: levels in place of the catalog's, `jemalloc:narenas=1,2,8`.

    A setting that this version does not have is left out, and one that this machine gives no room. UsageError for an allocator
    that has no settings, which is left out unless `strict`. O(files), and a look into each library.
    """
    files = _by_allocator()
    given = _own_levels(own, [a.name for a in allocators])
    spaces = [_space(a, files.get(a.name, ()), given.get(a.name)) for a in allocators]
    bare = next((space.allocator for space in spaces if not space.settings), None)
    if bare is not None and strict:
        raise UsageError(
            f"{bare} has no settings that the catalog knows",
            remedy="heapyard tune --list shows those there are; --setting NAME:OPTION=VALUE,VALUE gives others.",
        )
    return tuple(space for space in spaces if space.settings)


def tunable_names() -> frozenset[str]:
    """Names of the allocators that have settings in the catalog."""
    return frozenset(_by_allocator())


def _space(allocator: Allocator, known: tuple[Setting, ...], own: dict[str, tuple[str, ...]] | None) -> Space:
    if own is not None:
        described = {setting.name: setting for setting in known}
        settings = tuple(
            Setting(name, levels, *((d.default, d.about, d.since, d.source) if (d := described.get(name)) else ()))
            for name, levels in own.items()
        )
    else:
        here = options_of(allocator)
        settings = tuple(setting for setting in known if setting.name in here)
    return Space(allocator.name, settings)


def _own_levels(texts: Iterable[str], names: Sequence[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """`jemalloc:narenas=1,2` as {"jemalloc": {"narenas": ("1", "2")}}."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for text in texts:
        name, colon, rest = text.partition(":")
        option, equals, values = rest.partition("=")
        levels = tuple(dict.fromkeys(value.strip() for value in values.split(",")))
        if not (colon and equals and option and all(levels)):
            raise UsageError(f"--setting '{text}': write ALLOCATOR:OPTION=VALUE,VALUE, such as jemalloc:narenas=1,2")
        if name not in names:
            raise UsageError(f"--setting '{text}': {name} is not among the allocators {', '.join(names)}")
        if option in found.setdefault(name, {}):
            raise UsageError(f"--setting '{text}': {option} is given twice")
        found[name][option] = levels
    return found


def _by_allocator() -> dict[str, tuple[Setting, ...]]:
    found: dict[str, tuple[Setting, ...]] = {}
    for path in sorted((places.root() / "peers" / "settings").glob("*.toml")):
        names, settings = _read(path)
        found |= {name: tuple(setting for setting, only in settings if name in (only or names)) for name in names}
    return found


def _read(path: Path) -> tuple[tuple[str, ...], list[tuple[Setting, tuple[str, ...]]]]:
    """The allocators that a file speaks of, and the settings to which this machine gives room, with those that have them: none
    for all of them."""
    top = read_toml(path)
    names, source = top.strings("allocators"), top.string("source")
    tables = top.table("settings")
    if tables is None:
        top.fail("settings", "is missing; a file holds tables [settings.NAME]")
    read = [_setting(name, table, source, names) for name, table in tables.tables().items()]
    top.finish()
    return names, [(setting, only) for setting, only, room in read if room]


def _setting(name: str, table: TomlTable, source: str, names: tuple[str, ...]) -> tuple[Setting, tuple[str, ...], bool]:
    """The setting, under which allocators it does something, and whether it can on this machine."""
    levels = table.strings("levels")
    if not levels:
        table.fail("levels", "is empty; give at least one value beside the default")
    processors = str(len(os.sched_getaffinity(0)))
    made = Setting(
        name,
        tuple(dict.fromkeys(level.replace("{processors}", processors) for level in levels)),
        default=table.string("default"),
        about=table.string("about"),
        since=table.string("since", ""),
        source=source,
    )
    needs = table.choice("needs", _NEEDS, "")
    only = table.strings("only", ())
    if not set(only) <= set(names):
        table.fail("only", f"must name some of {', '.join(names)}")
    table.finish()
    return made, only, needs != HUGE_PAGES or _huge_pages()


def _huge_pages() -> bool:
    try:
        return "[never]" not in _MODE.read_text()
    except OSError:
        return False

# SPDX-License-Identifier: Apache-2.0
"""The suites of `heapyard soak`: one file in soak/ each, or a file of the user's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..model import places
from ..model.errors import UsageError
from ..model.soak import Suite
from .toml_file import TomlTable, read_toml


def find_suites(names: Sequence[str]) -> list[Suite]:
    """Those named, each a name of `soak/` or the path of a file; all of `soak/`, by their order, without names."""
    if not names:
        return sorted((_read(path) for path in _folder().glob("*.toml")), key=lambda suite: suite.name)
    return [_read(_file(name)) for name in dict.fromkeys(names)]


def _folder() -> Path:
    return places.root() / "soak"


def _file(name: str) -> Path:
    if name.endswith(".toml") or "/" in name:
        return Path(name).absolute()
    path = _folder() / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(path.stem for path in _folder().glob("*.toml")))
        raise UsageError(f"there is no suite '{name}'; there are {known}")
    return path


def _read(path: Path) -> Suite:
    table = read_toml(path)
    result = table.table("result") or TomlTable(path, "", {})
    codes = result.get("skipped", list, "a list of exit codes", [])
    if not all(isinstance(code, int) for code in codes):
        result.fail("skipped", f"must be a list of exit codes, not {codes!r}")
    suite = Suite(
        path.stem, path, table.string("title"), table.string("about", "").strip(), table.strings("packages", ()),
        table.string("source", ""), table.boolean("checkout", False), table.string("version", ""), table.string("build", ""),
        table.string("list"), table.string("run"), table.mapping("env"), float(table.number("limit", Suite.limit)),
        tuple(codes), _pattern(result, "failed", groups=1), _pattern(result, "cases"), result.boolean("answer", False),
        table.mapping("left_out"),
    )
    table.finish()
    result.finish()
    return suite


def _pattern(table: TomlTable, field: str, groups: int = 0) -> str:
    text = table.string(field, "")
    try:
        if text and re.compile(text).groups < groups:
            table.fail(field, "must have a group, the name of what failed")
    except re.error as error:
        table.fail(field, f"is no regular expression: {error}")
    return text

# SPDX-License-Identifier: Apache-2.0
"""A program of a study that serves: its load and what goes with it, as `compare` has them as options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model.errors import UsageError
from ..model.units import parse_duration
from .server_command import Load, server_of
from .server_words import LoadError
from .toml_file import TomlTable

_TEXTS = ("warm_up", "ready", "ready_line", "stop", "lead")
_TIMES = ("ready_within", "settle")
_BESIDE = (*_TEXTS, *_TIMES, "state", "port", "rate", "metric")  # `load`


def read_load(table: TomlTable, command: Sequence[str]) -> Load | None:
    """The load of a table [program.NAME], None without one; UsageError names file, line and the wrong key.

    `command`: the server's own.
    """
    lines = _lines(table, "load")
    if not table.has("load"):
        if stray := next((name for name in _BESIDE if table.has(name)), None):
            table.fail(stray, "is for a server, and the program has no load")
        for name in _BESIDE:
            table.get(name, object, "absent", None)  # known, should another key be misspelt
        return None
    if table.has("check"):
        table.fail("check", "is for a program that ends by itself, and this one has a load")
    given: dict[str, Any] = {name: table.string(name) for name in _TEXTS if table.has(name)}
    given |= {name: _time(table, name) for name in _TIMES if table.has(name)}
    if table.has("state"):
        given["state"] = table.place("state")
    port = table.integer("port", 0)
    if not 0 <= port <= 65535 or (table.has("port") and not port):
        table.fail("port", f"must be between 1 and 65535, not {port}")
    rate = table.integer("rate", 0)
    if rate < 0 or (table.has("rate") and not rate):
        table.fail("rate", f"must be a number of requests a second, 1 or more, not {rate}")
    load = Load(lines, port=port, rate=rate, metrics=_lines(table, "metric"), **given)
    try:
        server_of(load, command)
    except LoadError as error:
        table.fail(error.field, f"is wrong: {error.complaint}")
    except UsageError as error:
        table.fail("load", f"is not enough: {error.message}. {error.remedy or ''}".rstrip())
    return load


def _lines(table: TomlTable, name: str) -> tuple[str, ...]:
    """One string, or a list of them; empty when absent."""
    if isinstance(table.get(name, (str, list), "a string, or a list of strings", ()), list):
        return table.strings(name)
    return (table.string(name),) if table.has(name) else ()


def _time(table: TomlTable, name: str) -> float:
    value = table.get(name, (str, int, float), 'a time such as "5s", or seconds')
    try:
        return parse_duration(str(value))
    except UsageError as error:
        table.fail(name, f"is wrong: {error.message}")

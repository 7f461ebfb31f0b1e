# SPDX-License-Identifier: Apache-2.0
"""Options that several verbs share, and their values as the lab's own types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ..model.errors import UsageError
from ..model.preference import PREFERENCES, Preference
from ..model.units import parse_duration, parse_percent
from .conduct import Manner

F = TypeVar("F", bound=Callable[..., Any])


def preference_options(function: F) -> F:
    """--prefer, --memory-limit: which allocator the answer names."""
    limit = click.option(
        "--memory-limit",
        type=MemoryLimit(),
        metavar="+SHARE",
        help="Name only allocators that need at most this much more memory, such as +10%.",
    )
    prefer = click.option(
        "--prefer",
        type=click.Choice(PREFERENCES),
        default="time",
        show_default=True,
        help="Which allocator the answer names: the one with the least time, the least memory, or better in one and worse in none.",
    )
    return prefer(limit(function))


def preference(prefer: str, memory_limit: float | None) -> Preference:
    return Preference(prefer, memory_limit)  # type: ignore[arg-type]


def change_system_option(function: F) -> F:
    """--change-system: the consent that the levels always and madvise of thp need."""
    return click.option(
        "--change-system",
        is_flag=True,
        help="As root: set the machine's mode of huge pages for one trial at a time, then restore it.",
    )(function)


def manner_options(function: F) -> F:
    """--prefer, --memory-limit and storing_options: how an experiment is carried out and shown."""
    return preference_options(storing_options(function))


def storing_options(function: F) -> F:
    """--output, --json, --quiet, --no-html, --wait."""
    for option in reversed(
        (
            click.option(
                "--output", type=click.Path(path_type=Path), metavar="FOLDER", help="Store the experiment there."
            ),
            click.option("--json", "json_", is_flag=True, help="Print the answer as JSON."),
            click.option("--quiet", is_flag=True, help="No progress, only the answer."),
            click.option("--no-html", is_flag=True, help="Do not write the HTML report."),
            click.option("--wait", is_flag=True, help="Wait while another experiment runs on this machine."),
        )
    ):
        function = option(function)
    return function


def manner(
    output: Path | None,
    json_: bool,
    quiet: bool,
    no_html: bool,
    wait: bool,
    prefer: str = "time",
    memory_limit: float | None = None,
) -> Manner:
    return Manner(output, json_, quiet, not no_html, wait, preference(prefer, memory_limit))


class Duration(click.ParamType):
    """`30s`, `5m`, `1h30m` in seconds."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return value if isinstance(value, float) else _parsed(parse_duration, value, param)


class Share(click.ParamType):
    """`1%` or `0.01`."""

    name = "SHARE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return value if isinstance(value, float) else _parsed(parse_percent, value, param)


class MemoryLimit(click.ParamType):
    """`+10%` as 0.1; the sign may be left out, and may not be a minus."""

    name = "SHARE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return value if isinstance(value, float) else _parsed(parse_percent, value.removeprefix("+"), param)


class Cpus(click.ParamType):
    """`0,1` or `0-3`."""

    name = "CPUS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        from ..catalog.treatments import parse_cpus

        return value if isinstance(value, tuple) else _parsed(parse_cpus, value, param)


class Margins(click.ParamType):
    """`2%` for time, or `2%,5%` for time and memory."""

    name = "TIME[,MEMORY]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, float]:
        if isinstance(value, dict):
            return value
        time, comma, memory = value.partition(",")
        found = {"margin_time": _parsed(parse_percent, time, param)}
        if comma:
            found["margin_memory"] = _parsed(parse_percent, memory, param)
        return found


def _parsed(parse: Callable[[str], Any], value: str, param: click.Parameter | None) -> Any:
    try:
        return parse(value)
    except UsageError as error:
        name = f"{param.opts[-1]}: " if param else ""
        raise UsageError(f"{name}{error.message}") from None


def name_and_value(option: str, text: str) -> tuple[str, str]:
    """`NAME=VALUE` of an option given several times; UsageError when there is no name."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{option} '{text}': write NAME=VALUE")
    return name, value

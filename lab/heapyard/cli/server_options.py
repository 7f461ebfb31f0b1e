# SPDX-License-Identifier: Apache-2.0
"""Options of a command that serves, and of its load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ..catalog.server_command import READY, SETTLE, Load
from ..model.errors import UsageError
from .options import Duration

F = TypeVar("F", bound=Callable[..., Any])

NAMES = ("load", "ready", "ready_line", "ready_within", "warm_up", "stop", "state", "settle", "port", "metric", "lead",
         "rate")


def comparison_options(function: F) -> F:
    """--rate, --lead: what makes no sense where a rate is searched for."""
    lead = click.option("--lead", metavar="METRIC", help="What the verdict speaks of, such as latency_p99 or cpu_per_request.")
    return lead(rate_option(function))


def rate_option(function: F) -> F:
    """--rate alone, where the verdict has one subject."""
    return click.option(
        "--rate", type=click.IntRange(1), metavar="N", help="What {rate} in the load is: requests per second.",
    )(function)


def server_options(function: F) -> F:
    """--load and what goes with it."""
    for option in reversed(
        (
            click.option("--load", multiple=True, metavar="COMMAND", help="Your command is a server, and this loads it."),
            click.option("--warm-up", metavar="COMMAND", help="A load before it, which is not counted."),
            click.option("--ready", metavar="COMMAND", help="Succeeds once the server is ready (default: its port answers)."),
            click.option("--ready-line", metavar="REGEX", help="The server is ready once it writes such a line."),
            click.option("--ready-within", type=Duration(), help=f"Longest until it is ready (default {READY:g}s)."),
            click.option("--stop", metavar="SIGNAL|COMMAND", help="How the server is stopped (default TERM)."),
            click.option("--settle", type=Duration(), help=f"Time between load and stop (default {SETTLE:g}s)."),
            click.option("--state", type=click.Path(path_type=Path), metavar="FOLDER", help="Each trial has a copy as {dir}."),
            click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="The server's port, where it is fixed."),
            click.option(
                "--metric", multiple=True, metavar="NAME=REGEX[:higher]",
                help="A number in the load's output; lower is better unless said otherwise.",
            ),
        )
    ):
        function = option(function)
    return function


def load_of(options: dict[str, Any], *, searched: bool = False) -> Load | None:
    """The options as a Load; None without --load. UsageError for the others without it. `searched`: {rate} is tried out."""
    given = {name: options[name] for name in NAMES if options.get(name) not in (None, ())}
    if "load" not in given:
        if given:
            raise UsageError(f"--{next(iter(given)).replace('_', '-')} is for a server, whose load --load gives")
        return None
    given["lines"] = given.pop("load")
    given["metrics"] = given.pop("metric", ())
    return Load(**given, searched=searched)

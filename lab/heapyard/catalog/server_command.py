# SPDX-License-Identifier: Apache-2.0
"""A server of the user's own and its load, in the words of the command line or of a study, as a model.program.Server."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..model.errors import UsageError
from ..model.metrics import METRICS
from ..model.program import Reading, Server
from .load_generators import GENERATORS, generator_of, keeps_pace

PORT = "{port}"
SETTLE = 1.0  # seconds that a server is left alone after its load, unless said otherwise
READY = 30.0  # seconds that it may take to become ready, unless said otherwise


@dataclass(frozen=True, slots=True)
class Load:
    """As the user writes it: `lines`, `ready`, `warm_up` and `stop` are shell lines; `metrics` as NAME=REGEX[:lower|:higher]."""

    lines: tuple[str, ...]
    ready: str = ""
    ready_line: str = ""
    ready_within: float = READY
    warm_up: str = ""
    stop: str = "TERM"  # the name of a signal, or a command
    state: Path | None = None
    settle: float = SETTLE
    port: int = 0
    metrics: tuple[str, ...] = ()
    lead: str = ""  # the response that the verdict speaks of


class LoadError(UsageError):
    """What cannot be carried out: a complaint about the option, or the key of a study, that is called `field`."""

    def __init__(self, field: str, complaint: str, *, remedy: str | None = None):
        super().__init__(f"--{field.replace('_', '-')}: {complaint}", remedy=remedy)
        self.field, self.complaint = field, complaint


def server_of(load: Load, command: Sequence[str]) -> Server:
    """UsageError, in one sentence, for what cannot be carried out; a LoadError where one field is to blame.

    `command`: the server's own.
    """
    named = signal_named(load.stop)
    if not (load.ready or load.ready_line or load.port or any(PORT in word for word in (*command, *load.lines))):
        raise UsageError(
            "nothing tells when the server is ready",
            remedy=f"Write {PORT} where its port stands, give it with --port, or say with --ready or --ready-line how to tell.",
        )
    _check_pattern("ready_line", load.ready_line)
    if load.state is not None and not load.state.is_dir():
        raise LoadError("state", f"there is no folder '{load.state}'")
    for line in load.lines:
        _check_program("load", line)
    generators = {known.name if (known := generator_of(line)) else "" for line in load.lines}
    if len(generators) > 1:
        raise LoadError("load", f"the loads are of several kinds: {', '.join(sorted(g or 'an unknown one' for g in generators))}",
                        remedy="Loads that run at the same time must be of one generator.")
    generator = next(iter(generators))
    return Server(
        client=_shell(load.lines[0]),
        more_clients=tuple(map(_shell, load.lines[1:])),
        stop=() if named else _shell(load.stop),
        stop_signal=named or "SIGTERM",
        ready_seconds=load.ready_within,
        ready=_shell(load.ready) if load.ready else (),
        ready_line=load.ready_line,
        warm_up=_shell(load.warm_up) if load.warm_up else (),
        state=load.state.absolute() if load.state else None,
        settle=load.settle,
        port=load.port,
        generator=generator,
        paced=bool(generator) and all(keeps_pace(GENERATORS[generator], line) for line in load.lines),
        readings=tuple(map(parse_reading, load.metrics)),
    )


def lead_of(load: Load, server: Server) -> str:
    """The response that the verdict speaks of, unless the user names one.

    Where requests wait for answers their rate tells; where they are sent at a rate of their own, or a metric of the user's
    is all there is, that does. Else the load does fixed work, and its wall time tells.
    """
    if load.lead:
        return load.lead
    if server.readings:
        return server.readings[0].name
    if not server.generator:
        return "wall"
    return "latency_p99" if server.paced else "time_per_request"


def parse_reading(text: str) -> Reading:
    """`NAME=REGEX`, with `:higher` or `:lower` at the end; LoadError otherwise."""
    name, equals, pattern = text.partition("=")
    if not equals or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise LoadError("metric", f"write NAME=REGEX, with a name of small letters, digits and underlines, not '{text}'")
    if name in METRICS:
        raise LoadError("metric", f"heapyard itself has a response of this name, {name}")
    direction = "lower"
    for word in ("lower", "higher"):
        if pattern.endswith(f":{word}"):
            pattern, direction = pattern[: -len(word) - 1], word
    _check_pattern("metric", pattern)
    if re.compile(pattern).groups != 1:
        raise LoadError("metric", f"/{pattern}/ must have one group, which is the number, such as 'p99: ([0-9.]+)'")
    return Reading(name, pattern, direction)  # type: ignore[arg-type]


def signal_named(text: str) -> str:
    """`SIGINT` of `INT`, `SIGINT` or `2`; "" for what is no signal, and is a command."""
    if text.isdigit() and int(text) in signal.Signals._value2member_map_:
        return signal.Signals(int(text)).name
    name = text if text.startswith("SIG") else f"SIG{text}"
    return name if name in signal.Signals.__members__ else ""


def _check_pattern(field: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise LoadError(field, f"/{pattern}/ is not a regular expression: {error}") from None


def _check_program(field: str, line: str) -> None:
    """A first word that is no program is seen before anything is started; a line that only a shell understands is left to it."""
    words = line.split()
    if not words:
        raise LoadError(field, "is empty; it must be a command")
    if re.fullmatch(r"[\w./+-]+", words[0]) and shutil.which(words[0]) is None and words[0] not in _BUILTINS:
        raise LoadError(field, f"there is no program '{words[0]}'")


_BUILTINS = ("echo", "cd", "exec", "for", "while", "if", "set", "export", "ulimit", "umask", "test", "eval", "printf", "true")


def _shell(line: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", line)

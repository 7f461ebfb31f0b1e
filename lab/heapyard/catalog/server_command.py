# SPDX-License-Identifier: Apache-2.0
"""A server of the user's own and its load, in the words of the command line or of a study, as a model.program.Server."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from ..model.errors import UsageError
from ..model.metrics import METRICS
from ..model.program import Reading, Server
from .load_generators import GENERATORS, generator_of, keeps_pace, tail_of
from .server_words import LoadError, missing_program, misspelt

PORT = "{port}"
RATE = "{rate}"
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
    rate: int = 0  # what {rate} is, of all lines together; 0: nothing is asked for
    searched: bool = False  # {rate} is what a search for the capacity tries


def server_of(load: Load, command: Sequence[str], env: Mapping[str, str] = {}) -> Server:
    """UsageError, in one sentence, for what cannot be carried out; a LoadError where one field is to blame.

    `command`, `env`: the server's own.
    """
    named = signal_named(load.stop)
    _check_words(load, command, env, named)
    if not (load.ready or load.ready_line or load.port or any(PORT in word for word in (*command, *load.lines))):
        raise UsageError(
            "nothing tells when the server is ready",
            remedy=f"Write {PORT} where its port stands, give it with --port, or say with --ready or --ready-line how to tell.",
        )
    _check_pattern("ready_line", load.ready_line)
    if load.state is not None and not load.state.is_dir():
        raise LoadError("state", f"there is no folder '{load.state}'")
    _check_rate(load)
    generators = {known.name if (known := generator_of(line)) else "" for line in load.lines}
    if len(generators) > 1:
        raise LoadError("load", f"the loads are of several kinds: {', '.join(sorted(g or 'an unknown one' for g in generators))}",
                        remedy="Loads that run at the same time must be of one generator.")
    generator = next(iter(generators))
    server = Server(
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
    return at_rate(server, load.rate) if load.rate else server


def at_rate(server: Server, rate: int) -> Server:
    """With {rate} in its loads replaced: each load that asks for one sends an equal part. In the warm-up it is the whole."""
    part = max(rate // loads_at_a_rate(server), 1)

    def filled(words: tuple[str, ...], number: int) -> tuple[str, ...]:
        return tuple(word.replace(RATE, str(number)) for word in words)

    return replace(server, client=filled(server.client, part), warm_up=filled(server.warm_up, rate),
                   more_clients=tuple(filled(words, part) for words in server.more_clients))


def loads_at_a_rate(server: Server) -> int:
    """How many of its loads ask for {rate}; 1 at least."""
    return max(sum(any(RATE in word for word in words) for words in (server.client, *server.more_clients)), 1)


def _check_rate(load: Load) -> None:
    """UsageError where {rate} has no value, or a rate no {rate} to stand in."""
    asks = any(RATE in line for line in load.lines)
    if (asks or RATE in load.warm_up) and not (load.rate or load.searched):
        raise LoadError("load" if asks else "warm_up", f"has {RATE}, and nothing says what it is",
                        remedy="Give it with --rate N, or let heapyard capacity --slo search for it.")
    if not asks and (load.rate or load.searched):
        what = f"--rate {load.rate}" if load.rate else "the search for a capacity"
        raise UsageError(f"{what} needs a load with {RATE} in it",
                         remedy=f"Write it where the load's rate stands, such as vegeta attack -rate={RATE} or wrk2 -R{RATE}.")


def _check_words(load: Load, command: Sequence[str], env: Mapping[str, str], signal_: str) -> None:
    """UsageError for words that cannot mean what they say, of the server and of all that goes with its load."""
    lines = [("load", line) for line in load.lines]
    lines += [(field, line) for field, line in (("ready", load.ready), ("warm_up", load.warm_up)) if line]
    if not signal_:
        if re.fullmatch(r"[A-Z0-9]+", load.stop):
            raise LoadError("stop", f"there is no signal '{load.stop}'",
                            remedy="Write for example TERM, INT or QUIT, or a command.")
        lines.append(("stop", load.stop))
    own = {"the server's command": command} | {f"--env {name}": [value] for name, value in env.items()}
    for where, words in own.items():
        if complaint := misspelt(words):
            raise UsageError(f"{where}: {complaint}")
    for field, line in lines:
        if complaint := misspelt([line]):
            raise LoadError(field, complaint)
        if not line.split():
            raise LoadError(field, "is empty; it must be a command")
        if name := missing_program(line):
            raise LoadError(field, f"there is no program '{name}'", remedy="Install it, or give the path of it.")
    told = load.port or any(PORT in word for word in (*command, *env.values()))
    asks = next((field for field, line in lines if PORT in line), None)
    if asks and not told:
        raise LoadError(asks, f"asks {PORT}, but nothing tells the server which port that is",
                        remedy=f"Write {PORT} in the server's command or in --env, or give the port it has with --port.")


def lead_of(load: Load, server: Server) -> str:
    """The response that the verdict speaks of, unless the user names one.

    Where requests wait for answers their rate tells; where they are sent at a rate of their own, or a metric of the user's
    is all there is, that does. Else the load does fixed work, and its wall time tells.
    """
    if load.lead:
        return _lead_named(load.lead, server)
    if server.readings:
        return server.readings[0].name
    if not server.generator:
        return "wall"
    return tail_of(GENERATORS[server.generator], load.lines[0]) if server.paced else "time_per_request"


_OF_GENERATOR = ("time_per_request", "request_rate", "requests", "failed_requests", "cpu_per_request", "faults_per_request")
_OF_SERVER = ("load_cpu", "load_faults", "steady_rss", "left_rss")


def _lead_named(name: str, server: Server) -> str:
    """The name; UsageError where no response can have it."""
    own = tuple(reading.name for reading in server.readings)
    if name in (*METRICS, *own, *_OF_SERVER):
        return name
    if name in _OF_GENERATOR or name.startswith("latency_"):
        if server.generator:
            return name
        raise UsageError(f"--lead {name}: nothing tells it, since the load's program is no load generator that is known here",
                         remedy=f"--metric '{name}=REGEX' reads it from what the load prints.")
    near = get_close_matches(name, (*own, *_OF_SERVER, *_OF_GENERATOR, *_LATENCIES, *METRICS), n=1)
    raise UsageError(f"--lead {name}: there is no such response{f'; did you mean {near[0]}?' if near else ''}",
                     remedy="docs/servers.md lists them.")


_LATENCIES = ("latency_p50", "latency_p95", "latency_p99", "latency_mean", "latency_max")  # to name a near one by


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


def _shell(line: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", line)

# SPDX-License-Identifier: Apache-2.0
"""A real program with its input: what to launch, what its right answer is, how long it may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Output = Literal["same", "consistent", "ignore"]


@dataclass(frozen=True, slots=True)
class Answer:
    """How a trial's own answer is checked.

    `exit_code` must match. `output` "same": the digest of the answer must equal the one
    recorded in the program's file; "consistent": whenever the baseline's answers all agree within an experiment, every other
    treatment's must equal them; "ignore": the exit code alone. `files` are digested besides standard output, relative to
    the trial's own folder.
    """

    exit_code: int = 0
    output: Output = "consistent"
    files: tuple[str, ...] = ()
    digest: str = ""  # sha256 hex of the reference answer when output == "same"


@dataclass(frozen=True, slots=True)
class Reading:
    """A response of the user's own: the number that the first group of `pattern` finds in what a load prints.

    Where it is found several times, the last one counts. `direction`: which way is better.
    """

    name: str
    pattern: str
    direction: Literal["lower", "higher"] = "lower"


@dataclass(frozen=True, slots=True)
class Server:
    """A program that serves: the lab waits until it is ready, runs the load, then stops it cleanly.

    Commands may use {port}: a free loopback port, fresh for every trial unless `port` is set. None but the server sees the
    injected allocator. `wall` is then the first load's wall time; every other metric is the server's.
    """

    client: tuple[str, ...]
    stop: tuple[str, ...] = ()  # a command; without one the server is sent `stop_signal`
    ready_seconds: float = 10.0  # how long it may take to become ready
    client_answer: str = ""  # regular expression the client's output must match
    more_clients: tuple[tuple[str, ...], ...] = ()  # which run at the same time
    stop_signal: str = "SIGTERM"
    port: int = 0
    ready: tuple[str, ...] = ()  # a command that succeeds once the server is ready; without one its port tells
    ready_line: str = ""  # regular expression of a line that the server writes once it is ready
    warm_up: tuple[str, ...] = ()  # a load that is not counted
    state: Path | None = None  # a folder whose copy is {dir}
    settle: float = 0.0  # seconds that the server is left alone after the load, before it is stopped
    generator: str = ""  # which load generator the client is, where its output is understood
    paced: bool = False  # it sends requests at a rate of its own, so that those which a stall keeps waiting count
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """A workload, ready to launch: every path absolute, every input present.

    `command` may hold {dir} (an empty folder, fresh for every trial, which is also the working directory unless `cwd` is
    set) and {port}, unless it is `literal`. `stdin` None means /dev/null. `env` is added to the lab's own minimal environment; if
    `inherit_env`, to the environment heapyard was started with (the user's own program).
    """

    name: str
    title: str
    command: tuple[str, ...]
    about: str = ""
    stdin: Path | None = None
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    inherit_env: bool = False
    literal: bool = False  # the user's own command: braces are the user's, nothing is replaced
    argv0: str = ""  # name the program is started under, if not its path
    threads: int = 1
    answer: Answer = Answer()
    server: Server | None = None
    provenance: str = ""  # "Debian ghostscript 10.0.0", input "heapyard generator postscript seed 1"
    processors: int = 0  # it may use so many of those a trial may use, the first ones; 0 = all
    mutator: bool = False  # writes its responses to RESULT_FILE in its own folder (design: "A mutator")
    levels: dict[str, str] = field(default_factory=dict)  # of the factors that tell workloads apart


RESULT_FILE = "mutator.json"

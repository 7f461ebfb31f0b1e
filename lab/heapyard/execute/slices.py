# SPDX-License-Identifier: Apache-2.0
"""Blocks in slices: all trials of a block run in turns, one at a time, a few milliseconds each (lab/native/slices).

The speed of a machine that others share changes from second to second. What changes more slowly than a round of slices
affects all trials of the block alike. The price: a slice begins with caches that the others have used.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

from ..model import places
from ..model.errors import SetupError
from ..model.experiment import Treatment, TrialOutcome
from ..model.program import Program
from ..model.units import format_bytes
from .guards import judge, read_guards
from .huge_pages import sets_the_machine
from .launcher import Running

MOST_IDLE = 0.1  # of a program's wall time; beyond, it waits for something that does not wait for it
BEGINNING = 0.004  # seconds that beginning and ending may take beside that
MOST_MEMORY = 0.5  # of the machine's, for all trials of a block together
LEAST_SECONDS = 0.02  # of a program: few slices are no sample of anything


def why_not(
    program: Program,
    treatments: Sequence[Treatment],
    *,
    times: Sequence[tuple[float, float]],
    memory: float,
    machine: float,
) -> str:
    """Why trials of the program run one after another; "" where they may share the machine in slices.

    `times`: wall and CPU seconds of its whole trials so far. What else runs on the machine delays some of them, so the
    busiest one tells; empty where slices were asked for, whatever the program waits for. `memory`: bytes that a trial
    holds; `machine`: that there are.
    """
    if program.server:
        return "it is a server with a client"
    if program.mutator:
        return "it measures its own time"
    if any(t.levels.get("tracer", "off") != "off" for t in treatments):
        return "the tracer's collector runs beside it"
    if sets_the_machine(treatments):
        return "a level of thp sets the mode of the whole machine, one trial at a time"
    if times and max(wall for wall, _ in times) < LEAST_SECONDS:
        return f"it ends within {1000 * LEAST_SECONDS:.0f} ms"
    if times and all(wall - cpu > MOST_IDLE * wall + BEGINNING for wall, cpu in times):
        return f"it waits for {min(1 - cpu / wall for wall, cpu in times):.0%} of its time"
    if memory * len(treatments) > MOST_MEMORY * machine:
        return f"{len(treatments)} trials at once would hold {format_bytes(memory * len(treatments))}"
    return ""


def run_in_slices(
    launches: Sequence[Callable[[socket.socket], TrialOutcome]], *, seconds: float, seed: int
) -> list[TrialOutcome]:
    """Carries out the trials of a block by turns of `seconds`; their outcomes in the order given.

    Each launch is called in a thread of its own, with the socket through which its program's slices come. Guards are
    judged over the block, of which every outcome carries the readings. SetupError when the native part is missing.
    """
    giver = places.native("slices")
    if not giver.exists():
        raise SetupError(f"the native part {giver} is missing", remedy=places.repair())
    before = read_guards()
    with ExitStack() as closing:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in launches]
        for end in (end for pair in pairs for end in pair):
            closing.callback(end.close)
        ours = [pair[0].fileno() for pair in pairs]
        words = [giver, "--slice", round(seconds * 1e9), "--seed", seed, "--parent", os.getpid(), "--turns", _list(ours)]
        process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, pass_fds=ours, start_new_session=True)
        Running.at_work.add(process.pid)
        for pair in pairs:
            pair[0].close()
        try:
            with ThreadPoolExecutor(len(launches)) as threads:
                outcomes = list(threads.map(_called, launches, (pair[1] for pair in pairs)))
        finally:
            process.kill()  # it has ended, unless a launch could not be made
            process.wait()
            Running.at_work.discard(process.pid)
    used = sum(o.metrics.get("cpu", 0.0) for o in outcomes)
    readings, tripped = judge(before, read_guards(), used)
    return [replace(outcome, guards=readings, tripped=tripped) for outcome in outcomes]


def _called(launch: Callable[[socket.socket], TrialOutcome], turns: socket.socket) -> TrialOutcome:
    try:
        return launch(turns)
    finally:
        turns.close()  # whoever gives turns passes over a trial that came to nothing


def _list(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))

# SPDX-License-Identifier: Apache-2.0
"""`heapyard simulate`: a program on a machine with more processors than this one has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ..model.errors import EXIT_FAILED, EXIT_INTERRUPTED, HeapyardError, UsageError
from ..model.simulation import MACHINES, MOST_CORES, USUAL_CORES, USUAL_MACHINE, Simulated
from ..model.units import format_duration
from .own_command import WithCommand
from .status_line import StatusLine

if TYPE_CHECKING:
    from ..api.simulating import Course


class _Simulate(WithCommand):
    usage = "[OPTIONS] -- PROGRAM [ARGUMENT]..."


@click.command(cls=_Simulate)
@click.option("--machine", type=click.Choice(list(MACHINES)), default=USUAL_MACHINE, show_default=True, help="Which machine.")
@click.option("--cores", type=click.IntRange(1, MOST_CORES), default=USUAL_CORES, show_default=True, metavar="N",
              help="How many cores it has.")
@click.option("--allocators", multiple=True, metavar="NAME,...", help="Allocators to simulate; all: every installed one.")
@click.option("--allocator", "libraries", multiple=True, metavar="NAME=LIBRARY", help="A malloc library of your own.")
@click.option("--baseline", metavar="NAME", help="What the others are compared with (default: glibc, else the first).")
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True, metavar="N",
              help="The same seed gives the same result.")
@click.option("--seeds", type=click.IntRange(1, 1000), default=1, show_default=True, metavar="K",
              help="Simulate with so many seeds, and show how far the results spread.")
@click.option("--lines", type=click.IntRange(0, 50), metavar="N",
              help="How many cache lines to name for each allocator (default: as a screen takes).")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Runs at the same time (default: one per processor).")
@click.option("--wait", is_flag=True, help="Wait while an experiment runs on this machine.")
@click.option("--json", "json_", is_flag=True, help="Print the answer as JSON.")
@click.pass_context
def command(
    ctx: click.Context, machine: str, cores: int, allocators: tuple[str, ...], libraries: tuple[str, ...], baseline: str | None,
    seed: int, seeds: int, lines: int | None, jobs: int | None, wait: bool, json_: bool,
) -> int:
    """Run a program on a simulated machine with many cores, under each allocator.

    The simulator sees every memory access of every thread, and charges it as the caches of that machine would. The answer
    is simulated time, which cache lines move between cores, and who writes them. Nothing in it was measured, and
    docs/simulation.md says what the model leaves out. A run takes hundreds of times longer than the program itself.

    PROGRAM may be the name of a mutator, such as larson. The same seed gives the same numbers.

    Exit code 0: simulated. 2: the request is wrong. 3: QEMU is missing. 4: a run failed.

    \b
    Examples:
      heapyard simulate --cores 16 -- threadtest --threads 16 --iterations 2
      heapyard simulate --allocators glibc,jemalloc,mimalloc -- ./server --selftest
      heapyard simulate --allocator mine=./libmine.so --seeds 5 -- ./program
    """
    from ..api.simulating import allocators_to_simulate, baseline_among, program_to_simulate, simulate
    from ..catalog.allocators import parse_allocator_option
    from ..execute.loop.signals import stop_on_signals
    from ..execute.simulator.engine import have_engine
    from ..store import MachineLock
    from .consoles import answers, remark
    from .naming import split_list

    words = ctx.meta["command"]
    if not words:
        raise UsageError("say what to simulate", remedy="The program goes after --, as in: heapyard simulate -- ./program")
    found = allocators_to_simulate(split_list(allocators), dict(map(parse_allocator_option, libraries)))
    base = baseline_among(found, baseline or "")
    program = program_to_simulate(words, found)
    have_engine(remark)
    lock, progress = MachineLock(), _Progress()
    lock.acquire("a simulation", wait=wait, waiting=lambda who: remark(f"waiting for another experiment to end ({who})"))
    try:
        with stop_on_signals() as stop, progress:
            answer = simulate(program, found, Simulated(machine, cores, seed), baseline=base, seeds=seeds, jobs=jobs or 0,
                              stop=stop, watch=progress.say)
    finally:
        lock.release()
    if json_:
        from ..report.simulation_json import simulation_answer

        click.echo(json.dumps(simulation_answer(answer), indent=1))
    elif answer.runs and all(one.run is None for one in answer.runs):
        more = f" (and {len(answer.runs) - 1} more runs failed)" if len(answer.runs) > 1 else ""
        raise HeapyardError(f"nothing could be simulated: {answer.runs[0].reason}{more}")
    elif answer.runs:
        from ..report.simulation_table import print_simulations

        print_simulations(answers(), answer, lines)
    if not answer.complete:
        if not answer.runs:
            remark("interrupted before a run had ended")
        return EXIT_INTERRUPTED
    return EXIT_FAILED if any(one.run is None for one in answer.runs) else 0


class _Progress(StatusLine):
    """Which runs are at work, how many have ended, and the time left."""

    def say(self, course: Course) -> None:
        left = f", about {format_duration(course.left)} left" if course.left else ""
        now = f"; now under {' and '.join(course.running)}" if course.running else ""
        self.tell(f"simulated {course.done} of {course.planned} runs, {format_duration(course.seconds)} gone{left}{now}")

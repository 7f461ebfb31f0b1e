# SPDX-License-Identifier: Apache-2.0
"""`heapyard doctor`: what on this machine threatens a result, what to do, and how small a difference it can find."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ..model import places
from ..model.errors import HeapyardError
from ..model.units import format_duration, parse_duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from ..execute.machine.finding import Finding
    from .doctor_noise import Noise, Spread

DIFFERENCES = (0.10, 0.05, 0.02, 0.01, 0.005)
PROGRAM_SECONDS = 1.0  # the program that the table of differences speaks of
TREATMENTS = 3  # of the least experiment: the baseline, its A/A control, one other allocator
ORDER = {"bad": 0, "warn": 1, "ok": 2}
COLOURS = {"bad": "red", "warn": "yellow", "ok": "green"}
_WIDTH = 80  # where the output is no terminal


@click.command()
@click.option("--no-noise", is_flag=True, help="Only look, and run nothing.")
@click.option("--seconds", default="20s", metavar="TIME", show_default=True, help="How long to measure the noise.")
@click.option("--json", "json_", is_flag=True, help="Print everything as JSON.")
def command(no_noise: bool, seconds: str, json_: bool) -> None:
    """Say what on this machine threatens a result, and how small a difference it can find.

    This looks at the processor, memory and load, then runs one small program against itself under glibc. It changes nothing,
    and prints commands for you to run. The exit code is 0 whatever it finds.
    """
    from ..execute.machine.examine import examine
    from ..execute.memory_source import obstacle_to_groups, source_finding

    duration = parse_duration(seconds)
    checked = (*examine(places.results()), *_shared_folder(), source_finding(obstacle_to_groups()))
    findings = sorted(checked, key=lambda f: ORDER[f.severity])
    if not json_:
        console = _console()
        _print_findings(console, findings)
    noise, obstacle = (None, "not asked for") if no_noise else _measure(duration, quiet=json_)
    if json_:
        click.echo(json.dumps(_everything(findings, noise, obstacle), indent=1))
    elif noise:
        _print_noise(console, noise)
    elif not no_noise:
        console.print(f"\nThe noise was not measured: {obstacle}")


def _shared_folder() -> list[Finding]:
    """Where results lie on a file system that several machines share."""
    from ..execute.machine.finding import Finding
    from ..store import network_type

    results = places.results()
    folder = next(p for p in (results, *results.parents) if p.exists())
    kind = network_type(folder)
    if not kind:
        return []
    effect = "a rollback journal is kept there: each trial waits for the disk, and one machine at a time may run an experiment"
    remedy = "measure into a local folder, then bring results together"
    command = f"HEAPYARD_RESULTS=/var/tmp/results heapyard run STUDY; heapyard merge /var/tmp/results --into {folder}"
    return [Finding("shared results", "warn", f"{folder} lies on {kind}", effect, remedy, command)]


def _measure(seconds: float, *, quiet: bool) -> tuple[Noise | None, str]:
    """(noise, "") or (None, why it was not measured)."""
    from ..catalog.allocators import find_allocators
    from ..execute.host_memory import readying
    from ..execute.loop.signals import stop_on_signals
    from ..execute.trial import run_trial
    from ..store import MachineLock
    from .doctor_noise import measure_noise

    lock = MachineLock()
    try:
        lock.acquire("heapyard doctor")
    except HeapyardError as error:
        return None, error.message
    try:
        with stop_on_signals() as stop, _Progress(seconds, quiet) as progress:
            glibc = find_allocators(["glibc"])[0]
            return measure_noise(glibc, seconds, run_trial, stop=stop, progress=progress, make_ready=readying()), ""
    except HeapyardError as error:
        return None, error.message
    finally:
        lock.release()


class _Progress:
    """A bar on a terminal, one line elsewhere; drawn between trials only."""

    def __init__(self, seconds: float, quiet: bool):
        self.seconds, self.quiet = seconds, quiet
        self.bar: Progress | None = None

    def __enter__(self) -> _Progress:
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_terminal and not self.quiet:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self.bar = Progress(
                TextColumn("measuring the noise"),
                BarColumn(),
                TimeRemainingColumn(),
                console=console,
                auto_refresh=False,
                transient=True,
            )
            self.bar.start()
            self.task = self.bar.add_task("", total=1.0)
        elif not self.quiet:
            click.echo(f"measuring the noise for about {format_duration(self.seconds)}", err=True)
        return self

    def __call__(self, share: float) -> None:
        if self.bar:
            self.bar.update(self.task, completed=share, refresh=True)

    def __exit__(self, *_: object) -> None:
        if self.bar:
            self.bar.stop()


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def _print_findings(console: Console, findings: Sequence[Finding]) -> None:
    from rich.text import Text

    console.print(Text(f"{platform.node()}: {platform.system()} {platform.release()}, {platform.machine()}", "bold"))
    width = max(len(f.check) for f in findings)
    for f in findings:
        name = f"{f.severity:<6}{f.check:<{width}}  "
        text = Text("\n".join(_folded(f.state, name, console.width)))
        text.stylize(COLOURS[f.severity], 0, len(f.severity))
        console.print(text, soft_wrap=True)
        for line in (_folded(f.effect, "      so: ", console.width) if f.effect else []) + (
            _folded(f.remedy, "      do: ", console.width) if f.remedy else []
        ):
            console.print(Text(line), soft_wrap=True)
        if f.command:  # never folded: it must survive being copied
            console.print(Text(f"      $ {f.command}", "bold"), soft_wrap=True)
    counts = {severity: sum(f.severity == severity for f in findings) for severity in ORDER}
    console.print(Text(f"{counts['bad']} bad, {counts['warn']} to keep in mind, {counts['ok']} ok", "bold"))


def _folded(text: str, start: str, width: int) -> list[str]:
    """`start` and `text` in lines of at most `width`, the later ones indented as far as `start` reaches."""
    import textwrap

    return textwrap.wrap(text, width, initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False)


def _print_noise(console: Console, noise: Noise) -> None:
    from rich.text import Text

    from ..design.power import detectable_difference

    def say(text: str) -> None:
        console.print(Text("\n".join(_folded(text, "  ", console.width))), soft_wrap=True)

    console.print(Text("\nNoise of one trial beyond its block", "bold"))
    say(f"time    {_spread(noise.time)}")
    say(f"memory  {_spread(noise.memory)}")
    say(
        f"From {noise.blocks} blocks of a program of {format_duration(noise.trial_seconds)} against itself under "
        "glibc; "
        f"blocks that a guard rejected: {noise.disturbed}{_example(noise.reasons)}."
    )
    console.print(Text("\nDifferences in time that four of five experiments find", "bold"))
    say(f"{'difference':>10}  {'blocks':>7}  {'time it takes':>14}")
    for found in _finds(noise):
        say(f"{found['difference'] * 100:>8g} %  {found['blocks']:>7}  {format_duration(found['seconds']):>14}")
    least = detectable_difference(noise.memory.cv, noise.blocks)
    say(
        f"For one other allocator on one program of {format_duration(PROGRAM_SECONDS)}. "
        f"Differences in memory of {least * 100:.2g} % show in {noise.blocks} blocks. "
        "Your own program may be noisier: compare measures its noise first."
    )


def _example(reasons: Sequence[str]) -> str:
    return f" (such as: {reasons[0]})" if reasons else ""


def _spread(spread: Spread) -> str:
    return f"{spread.cv * 100:.2g} %  (95 % interval {spread.low * 100:.2g} to {spread.high * 100:.2g} %)"


def _finds(noise: Noise) -> list[dict[str, float]]:
    """For each difference in time the blocks and seconds that find it, if a million blocks do."""
    from ..design.power import blocks_for

    block_seconds = TREATMENTS * (PROGRAM_SECONDS + noise.overhead_seconds)
    found = ((difference, blocks_for(difference, noise.time.cv)) for difference in DIFFERENCES)
    return [
        {"difference": difference, "blocks": blocks, "seconds": blocks * block_seconds}
        for difference, blocks in found
        if blocks
    ]


def _everything(findings: Sequence[Finding], noise: Noise | None, obstacle: str) -> dict[str, object]:
    return {
        "checks": [asdict(f) for f in findings],
        "noise": asdict(noise) if noise else None,
        "noise_obstacle": obstacle,
        "time_differences": _finds(noise) if noise else [],
    }

# SPDX-License-Identifier: Apache-2.0
"""The answer of `heapyard simulate` on a terminal: one row per allocator, then which lines bounce. Readable at 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..model.simulation import Access, NamedLine, Run, Simulation, Simulations, Writer
from ..model.units import counted, format_bytes, format_duration
from .words import listed, plain, ratio

WIDEST_TEXT = 100  # columns of running text
MOST_LINES = 6  # named unless said otherwise, of all allocators together
MOST_WRITERS = 2  # groups of threads that are told apart
MOST_FUNCTIONS = 3  # named for a line
LEAST_SHARE = 0.01  # of a run's transfers: a line with fewer is not worth a mention
KILO = 1000  # instructions that counts refer to, where nobody counts operations


def print_simulations(console: Console, found: Simulations, lines: int | None = None) -> None:
    """Print the heading, one table and the `lines` worst lines of each allocator, by default as many as one screen takes.
    O(runs + lines)."""
    lines = max(1, MOST_LINES // max(len(found.allocators), 1)) if lines is None else lines
    _paragraph(console, heading(found), "bold")
    if told := answer(found):
        _paragraph(console, told)
    if any(found.of(name) for name in found.allocators):
        console.print(simulation_table(found, console.width))
        _paragraph(console, key(found), "dim")
    for name in found.allocators:
        failed = [one for one in found.runs if one.allocator == name and one.run is None]
        if failed:
            of = f" with {len(failed)} of {sum(one.allocator == name for one in found.runs)} seeds" if _seeds(found) > 1 else ""
            _paragraph(console, f"{name} was not simulated{of}: {failed[0].reason}", "red")
    if lines and any(one.lines for one in found.runs):
        console.print()
        _paragraph(console, "Which line bounces, and who writes it (simulated)", "bold")
        for name in found.allocators:
            _bouncing(console, name, next((one for one in found.runs if one.allocator == name and one.run), None), lines)
    if not found.complete:
        _paragraph(console, "It was interrupted; what had ended is shown.")


def heading(found: Simulations) -> str:
    """`Simulated: larson on a server with 64 cores, seed 1. No time here was measured.`"""
    machine = found.machine
    seeds = sorted({one.seed for one in found.runs}) or [machine.seed]
    told = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    return f"Simulated: {plain(found.program)} on a {machine.words}, {told}. No time here was measured."


def answer(found: Simulations) -> str:
    """`Least simulated time: jemalloc, 0.821 of glibc's.` "" where there is nothing to compare."""
    means = {name: fmean(ratios) for name in found.allocators if (ratios := ratios_of(found, name))}
    if len(means) < 2:
        return ""
    best = min(means, key=means.__getitem__)
    than = f", {ratio(means[best])} of {plain(found.baseline)}'s" if best != found.baseline else ""
    return f"Least simulated time: {plain(best)}{than}."


def key(found: Simulations) -> str:
    """What the columns are."""
    phase = "the phase that the mutator measures" if _has_phase(found) else "the whole run"
    per = "operation of the heap" if _operations(found) else f"{KILO:,} instructions"
    told = (f"time: simulated, of {phase}. misses of coherence, transfers of lines from another core's cache, atomics: per {per}. "
            "hand-overs: of locks between threads. waiting: asleep for locks, all threads together.")
    return told + (f" x {found.baseline}: mean over the seeds, and least to most." if _seeds(found) > 1 else "")


def simulation_table(found: Simulations, width: int) -> Table:
    """A row for each allocator in the order asked for. A column is as wide as what stands in it; names get what is left."""
    headings = _headings(found)
    rows: dict[str, Sequence[str | Text]] = {name: _row(found, name) for name in found.allocators}
    widths = [
        max(len(text) for text in (*heading.split("\n"), *(row[i] for row in rows.values() if row)))
        for i, heading in enumerate(headings)
    ]
    longest = max(map(len, (*found.allocators, "allocator")))
    table = Table(box=None, show_header=True, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False)
    left = width - sum(widths) - len(widths) - 1
    table.add_column("\nallocator", width=max(8, min(longest, left)), no_wrap=True, overflow="ellipsis")
    for heading, needed in zip(headings, widths, strict=True):
        table.add_column(heading, width=needed, justify="right", no_wrap=True, overflow="ellipsis")
    for name, row in rows.items():
        label = Text(plain(name), style="bold" if name == found.baseline else "")
        table.add_row(label, *(row or [Text("failed", style="red")]))
    return table


def _headings(found: Simulations) -> list[str]:
    several = ["least\nto most"] if _seeds(found) > 1 else []
    counts = ["\nmisses", "trans-\nfers", "\natomics", "hand-\novers"]
    return ["\ntime", f"x\n{plain(found.baseline)[:8]}", *several, *counts, "\nwaiting", "peak\nmemory"]


def _row(found: Simulations, name: str) -> list[str]:
    """The cells beside the name; none where no run ended well."""
    if not (runs := found.of(name)):
        return []
    ratios = ratios_of(found, name)
    several = [f"{ratio(min(ratios))} {ratio(max(ratios))}" if ratios else ""] if _seeds(found) > 1 else []
    counts: tuple[Callable[[Run], int], ...] = (
        lambda run: run.counts.coherence_misses, lambda run: run.counts.transfers, lambda run: run.counts.atomics
    )
    return [
        format_duration(fmean(map(seconds_of, runs))), ratio(fmean(ratios)) if ratios else "", *several,
        *(_per(found, name, count) for count in counts), f"{fmean(run.counts.lock_handovers for run in runs):,.0f}",
        format_duration(fmean(run.counts.lock_waiting_seconds for run in runs)),
        format_bytes(fmean(run.memory for run in runs)),
    ]


def seconds_of(run: Run) -> float:
    """Simulated seconds of the phase that a mutator measures, of the whole run for a program that marks none."""
    return run.seconds if run.measured_seconds is None else run.measured_seconds


def ratios_of(found: Simulations, allocator: str) -> list[float]:
    """Its simulated time to the baseline's with the same seed, by seed; only of seeds that both have."""
    base = {run.seed: seconds_of(run) for run in found.of(found.baseline)}
    return [seconds_of(run) / base[run.seed] for run in found.of(allocator) if base.get(run.seed)]


def _per(found: Simulations, name: str, count: Callable[[Run], int]) -> str:
    by_operation = _operations(found)
    values = [count(one.run) / (one.operations if by_operation else max(one.run.counts.instructions, 1) / KILO)
              for one in found.runs if one.allocator == name and one.run is not None]
    value = fmean(values)
    return f"{value:.0f}" if value >= 99.5 else f"{value:.3g}"


def _operations(found: Simulations) -> bool:
    """Whether every run says how many operations of the heap it did."""
    ran = [one for one in found.runs if one.run is not None]
    return bool(ran) and all(one.operations > 0 for one in ran)


def _has_phase(found: Simulations) -> bool:
    return any(run.measured_seconds is not None for name in found.allocators for run in found.of(name))


def _seeds(found: Simulations) -> int:
    return len({one.seed for one in found.runs if one.run is not None})


def _bouncing(console: Console, name: str, one: Simulation | None, most: int) -> None:
    """The worst lines of one run."""
    if one is None or one.run is None:
        return
    total = one.run.counts.transfers
    moving = [line for line in one.lines if total and line.line.transfers >= LEAST_SHARE * total]
    worst = moving[:most]
    if not any(line.line.is_false_sharing for line in worst):  # which nobody asks for, and anybody can cure
        worst += [line for line in moving if line.line.is_false_sharing][:1]
    console.print(Text(plain(name), "bold"))
    if not worst:
        _paragraph(console, f"no line has 1 % of the {total:,} transfers", indent=2)
    for line in worst:
        _paragraph(console, plain(line_in_words(line, total)), "bold red" if line.line.is_false_sharing else "", indent=2)
        if told := functions_in_words(line):
            _paragraph(console, plain(told), "dim", indent=4)


def line_in_words(named: NamedLine, total: int) -> str:
    """`main_arena in libc.so.6: 12,345 transfers, 61 %; 64 threads write bytes 0 to 7`."""
    line = named.line
    share = f"{100 * line.transfers / total:.0f}\N{NO-BREAK SPACE}%" if total else "none"
    label = "FALSE SHARING: " if line.is_false_sharing else ""
    layer = f" ({named.layer})" if named.layer else ""
    return f"{label}{named.owner}{layer}: {line.transfers:,} transfers, {share} of all; {writers_in_words(named)}"


def writers_in_words(named: NamedLine) -> str:
    """`thread 3 writes bytes 0 to 7, thread 5 bytes 8 to 15`; of many threads the whole range, or two that share nothing."""
    line = named.line
    if not line.writers:
        return "nobody writes it"
    by_bytes: dict[tuple[int, int], list[int]] = {}
    for writer in line.writers:
        by_bytes.setdefault((writer.low, writer.high), []).append(writer.thread)
    if len(by_bytes) <= MOST_WRITERS:
        return _groups(by_bytes)
    if (pair := apart(line.writers)) is not None and line.is_false_sharing:
        more = counted(len(line.writers) - 2, "more thread")
        return f"{_groups({(w.low, w.high): [w.thread] for w in pair})}; and {more}"
    low, high = min(w.low for w in line.writers), max(w.high for w in line.writers)
    return f"{len(line.writers)} threads write bytes {low} to {high - 1}"


def apart(writers: Sequence[Writer]) -> tuple[Writer, Writer] | None:
    """Of those that wrote no byte in common the two that stored most; None where all overlap. O(writers^2)."""
    pairs = ((a, b) for i, a in enumerate(writers) for b in writers[i + 1 :] if a.high <= b.low or b.high <= a.low)
    return max(pairs, key=lambda pair: min(pair[0].stores, pair[1].stores), default=None)


def _groups(by_bytes: Mapping[tuple[int, int], Sequence[int]]) -> str:
    parts: list[str] = []
    for (low, high), threads in by_bytes.items():
        who = f"thread {threads[0]}" if len(threads) == 1 else f"{len(threads)} threads"
        verb = ("writes " if len(threads) == 1 else "write ") if not parts else ""
        parts.append(f"{who} {verb}bytes {low} to {high - 1}" if high - low > 1 else f"{who} {verb}byte {low}")
    return listed(parts)


def functions_in_words(named: NamedLine) -> str:
    """`by _int_free (malloc.c:4512) 40 %, _int_malloc (malloc.c:3900) 31 %`."""
    total = sum(access.count for access in named.accesses)
    shown = named.accesses[:MOST_FUNCTIONS]
    return "by " + ", ".join(f"{_function(a)} {100 * a.count / total:.0f}\N{NO-BREAK SPACE}%" for a in shown) if total else ""


def _function(access: Access) -> str:
    name = access.function.removeprefix("heapyard::")
    return name if name.startswith(access.place) else f"{name} ({access.place})"


def _paragraph(console: Console, text: str, style: str = "", *, indent: int = 0) -> None:
    width = min(console.width, WIDEST_TEXT)
    for i, line in enumerate(Text(text, style=style).wrap(console, width - indent - 2 * bool(indent))):
        line.rstrip()
        console.print(Text(" " * (indent + (2 if i and indent else 0))) + line, no_wrap=True)

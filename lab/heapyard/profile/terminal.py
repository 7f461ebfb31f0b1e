# SPDX-License-Identifier: Apache-2.0
"""A profile on a terminal: what it was, memory over time, who owned it at the peak and at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.units import format_bytes, format_duration
from .account import beside, fullest, nearest, when_fullest
from .callers import caller_lines
from .chains import ChainMemory, Naming, as_read, owners, short, total_error
from .timeline import total_over

if TYPE_CHECKING:
    from rich.console import Console

    from .account import Account
    from .symbols import Frame
    from .trace import Snapshot, Trace

_BARS = " ▁▂▃▄▅▆▇█"
_EVERY = {"exact": "every allocation and free", "pages": "every page record, span and large block of the heap"}
_LOST = {
    "nested": "calls made by signal handlers in the middle of a recording",
    "no_ring": "calls of threads that were more at once than the tracer has rings for",
    "ring_full": "calls while the collector did not keep up",
    "set_full": "samples beyond what the tracer remembers",
    "frees": "frees that were lost",
    "unknown_chains": "allocations whose call chain was lost",
    "torn_rings": "stretches of events that the program has written over",
    "nodes": "frames of call chains beyond the collector's limit, which a small --limit lowers",
    "marks": "marks that the file had no room for (--limit raises it)",
    "modules": "libraries that the file had no room to name (--limit raises it)",
}


def show(console: Console, trace: Trace, naming: Naming, top: int = 10) -> None:
    """The summary of one process."""
    from rich.text import Text

    console.print(Text(title(trace), style="bold"), soft_wrap=True)
    for line in facts(trace):
        console.print(Text(line), soft_wrap=True)
    console.print()
    _curve(console, trace)
    account = fullest(trace.accounts)
    if account is not None:
        _account(console, trace, naming, account, when_fullest(trace, account), max(3, top // 2))
    peak, end = trace.snapshot("peak"), trace.snapshot("end")
    if peak is not None and peak.total:
        _owners(console, trace, naming, peak, f"At the peak, after {format_duration(peak.time)}", top)
    if end is not None and trace.peak_bytes:
        heading = "At the end, not freed" if trace.end.get("how") == "ended" else "At the end of tracing, still live"
        _owners(console, trace, naming, end, heading, max(3, top // 2))
    for warning in warnings(trace):
        console.print(Text(f"! {warning}", style="yellow"))


def warnings(trace: Trace) -> list[str]:
    """What a reader must know before believing a number."""
    found = []
    if trace.meta.get("attached"):
        found.append("Attached while it ran: what it had allocated before is not in the profile, what it had mapped is unknown.")
        if trace.meta["allocator"] == trace.meta["program"]:
            found.append("malloc is part of the program itself: only calls from its libraries were seen.")
    if not trace.finished:
        found.append("The collector was killed: this is what it had written until then, without the composition of the end.")
    for step in trace.snapshots:
        if step.kind == "step":
            found.append(f"After {format_duration(step.time)}: {step.name}.")
    lost = trace.end.get("lost", {})
    found += [f"Not in the profile: {lost[key]:,} {text}." for key, text in _LOST.items() if lost.get(key)]
    if trace.end.get("allocations", 0) == 0 and trace.finished:
        found.append("No call of malloc was seen: it may be part of the program itself, or the program made none. What it mapped "
                     "by itself is seen all the same.")
    error = _error_at_peak(trace)
    if error > trace.peak_bytes / 2:
        found.append(f"Samples tell little of so small a heap: its peak may be off by {format_bytes(error)}, and rather reads too "
                     "high. --mode exact counts every byte.")
    torn, chains = trace.end.get("chains_torn", 0), max(1, trace.end.get("events", 1))
    if torn > chains // 100:
        found.append(f"{torn:,} call chains end in code without unwind tables, such as a just-in-time compiler's.")
    if trace.end.get("chains_cut", 0):
        cut, depth = trace.end["chains_cut"], trace.meta["depth"]
        found.append(f"{cut:,} call chains were longer than {depth} frames and miss their outermost ones.")
    if trace.end.get("rate", 0.05) > trace.meta["rate"]:
        found.append("The file came near its limit: changes were recorded more coarsely towards the end (--limit raises it).")
    return found


def title(trace: Trace) -> str:
    """The command, cut where nobody reads on."""
    words = trace.command
    return words if len(words) <= 300 else words[:299] + "…"


def facts(trace: Trace) -> list[str]:
    """What was traced and how, and how much it was: two lines."""
    end = trace.end
    first, widest = trace.meta["interval"], trace.end.get("widest_interval", 0)
    wider = f" (up to {format_bytes(widest)} when much was allocated)" if widest > first else ""
    how = _EVERY[trace.meta["mode"]] if trace.interval == 0 else f"sampled every {format_bytes(first)} on average{wider}"
    error = _error_at_peak(trace)
    under = f" under {Path(trace.meta['allocator']).name}" if trace.meta.get("allocator") else ""
    line_of_run = f"process {trace.meta['pid']}{under}, {format_duration(trace.duration)}, {how}"
    line = f"peak {format_bytes(trace.peak_bytes)}" + (f" ± {format_bytes(error)}" if error else "")
    line += " live"
    if len(trace.totals) and trace.totals[:, 5].max() > 0:  # it may have ended before anyone looked
        line += f", {format_bytes(trace.totals[:, 5].max())} resident"
    if end:
        line += f"; {_count(end['allocations'])} allocations, {_count(end['frees'])} frees"
    return [line_of_run, line]


def _error_at_peak(trace: Trace) -> float:
    """Half of the 95 % interval, in bytes; 0 where every event was recorded. O(chains)."""
    peak = trace.snapshot("peak")
    return total_error(owners(trace, peak)) if peak is not None else 0.0


def _count(value: float) -> str:
    for unit, size in (("billion", 1e9), ("million", 1e6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:,.0f}"


def _curve(console: Console, trace: Trace) -> None:
    """Live bytes over time in one line of eighths: the maximum within each column."""
    from rich.text import Text

    width = max(20, min(console.width, 120) - 2)
    _, high = total_over(trace, width)
    most = max(high.max(initial=0.0), 1.0)
    bars = "".join(_BARS[0 if v <= 0 else max(1, round(v / most * 8))] for v in high)
    if not console.encoding.lower().startswith("utf"):
        bars = "".join(" .:-=+*#@"[_BARS.index(bar)] for bar in bars)
    console.print(Text(bars, style="cyan"))
    left, right = f"0 s, live bytes, top {format_bytes(most)}", format_duration(trace.duration)
    console.print(Text(left + right.rjust(width - len(left)), style="dim"))
    console.print()


def _account(console: Console, trace: Trace, naming: Naming, account: Account, when: str, top: int) -> None:
    """What all of the resident memory was at a look, and which call chains had mapped memory themselves."""
    from rich.text import Text

    heading = f"All memory {when}: {format_bytes(account.resident)} resident"
    console.print(Text(heading, style="bold"))
    for part in account.parts:
        if part.bytes:
            console.print(Text(f"{format_bytes(part.bytes):>9} {_share(part.bytes, account.resident):>5}  {part.name}"))
    if more := beside(account):
        console.print(Text(" " * 17 + more, style="dim"))
    console.print()
    if account.mapped_resident.sum() >= account.resident / 100:
        _owners(console, trace, naming, account.of_mappings(), "Mapped by the program, resident then", top, "mapping")


def _owners(
    console: Console, trace: Trace, naming: Naming, snapshot: Snapshot, heading: str, top: int, unit: str = "block",
) -> None:
    from rich.text import Text

    found = as_read(naming, owners(trace, snapshot))
    sampled = bool(trace.interval) and unit == "block"
    error = f" ± {format_bytes(total_error(found))}" if sampled and found else ""
    console.print(Text(f"{heading}: {format_bytes(snapshot.total)}{error}", style="bold"))
    if not found:
        console.print()
        return
    frames = [naming.telling(chain.node) for chain in found[:top]]
    names = [[f"{short(inner.function)} {inner.place}", *(short(f.function) for f in outer)] for inner, *outer in frames]
    callers = caller_lines(names, console.width - 18, [[f.place for f in chain] for chain in frames])
    for chain, (inner, *_), line in zip(found, frames, callers, strict=False):
        console.print(_row(chain, snapshot, inner, line, sampled, console.width, unit))
    rest = found[top:]
    if rest:
        amount = sum(c.bytes for c in rest)
        more = "other call chain" if len(rest) == 1 else "other call chains"
        console.print(Text(f"{format_bytes(amount):>9} {_share(amount, snapshot.total):>5}  {len(rest):,} {more}", style="dim"))
    console.print()


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole > 0 else ""


def _row(chain: ChainMemory, snapshot: Snapshot, inner: Frame, callers: str, sampled: bool, width: int, unit: str) -> Any:
    from rich.text import Text

    blocks = f"{chain.blocks:,} {unit}" + ("" if chain.blocks == 1 else "s")
    error = f" ± {format_bytes(chain.error)}" if sampled and chain.error >= 1 else ""
    text = Text(f"{format_bytes(chain.bytes):>9} {_share(chain.bytes, snapshot.total):>5}  ")
    text.append(short(inner.function, width - 20 - len(inner.place)), style="bold")
    if inner.place:
        text.append(f" {inner.place}", style="dim")
    if callers:
        text.append("\n" + " " * 17 + callers, style="dim")
    kinds = ("shared", "in huge pages", "in swap")
    also = [f"{format_bytes(size)} {kind}" for size, kind in zip(chain.mapped_as, kinds, strict=False) if size]
    text.append("\n" + " " * 17 + ", ".join([f"{blocks}{error}", *also]), style="dim")
    return text


def show_instant(console: Console, trace: Trace, naming: Naming, snapshot: Snapshot, top: int) -> None:
    """Who owned the memory at one instant."""
    from rich.text import Text

    console.print(Text(title(trace), style="bold"), soft_wrap=True)
    account = nearest(trace.accounts, snapshot.time)
    if account is not None:
        when = f"after {format_duration(account.time)}, the nearest look"
        _account(console, trace, naming, account, when, max(3, top // 2))
    heading = f"{snapshot.kind} {snapshot.name}".strip() if snapshot.kind == "mark" else f"After {format_duration(snapshot.time)}"
    _owners(console, trace, naming, snapshot, heading, top)


def show_growth(console: Console, trace: Trace, naming: Naming, then: Snapshot, top: int) -> None:
    """What has grown since an instant: candidates for leaks."""
    from .chains import differences
    from .instants import at_instant, composed

    now = trace.snapshot("end") and at_instant(trace, "end") or composed(trace, trace.duration)
    rows = [row for row in differences(trace, trace, then, now, (naming, naming)) if row[2] > row[1]]
    show_differences(console, (trace, then), (trace, now), rows, top)


def show_differences(
    console: Console, before: tuple[Trace, Snapshot], after: tuple[Trace, Snapshot],
    rows: Sequence[tuple[tuple[str, ...], int, int, float]], top: int,
) -> None:
    """Chains whose memory changed, the largest change first; what may be chance is marked."""
    from rich.text import Text

    for word, (trace, snapshot) in (("before", before), ("after", after)):
        when = f"after {format_duration(snapshot.time)}"
        console.print(Text(f"{word:<7}{format_bytes(snapshot.total):>9}  {when}: {title(trace)}"), soft_wrap=True)
    console.print()
    changed = [row for row in rows if row[1] != row[2]]
    callers = caller_lines([[short(f) for f in functions[::-1]] for functions, *_ in changed[:top]], console.width - 13)
    for (functions, then, now, error), line in zip(changed, callers, strict=False):
        change = now - then
        sign = "+" if change > 0 else "−" if console.encoding.lower().startswith("utf") else "-"
        doubt = " (may be chance)" if error and abs(change) < error else ""
        text = Text(f"{sign}{format_bytes(abs(change)):>9}", style="red" if change > 0 else "green")
        text.append(f"  {short(functions[-1], console.width - 14)}", style="bold")
        text.append("\n" + " " * 12 + line, style="dim")
        text.append("\n" + " " * 12 + f"{format_bytes(then)} then, {format_bytes(now)} now{doubt}", style="dim")
        console.print(text)
    if len(changed) > top:
        console.print(Text(f"{len(changed) - top:,} other call chains changed", style="dim"))
    if not changed:
        console.print("No call chain changed.")


def show_processes(console: Console, traces: Sequence[Any]) -> None:
    """One line per traced process, in the order they began."""
    from rich.text import Text

    from .trace import load_trace

    for path in traces:
        trace = load_trace(path)
        line = f"{trace.meta['pid']:>8} {format_bytes(trace.peak_bytes):>9} {format_duration(trace.duration):>12}  {title(trace)}"
        console.print(Text(line), no_wrap=True, overflow="ellipsis")

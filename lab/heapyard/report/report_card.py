# SPDX-License-Identifier: Apache-2.0
"""The report card of `heapyard check` on a terminal: the verdict first, then what is wrong, then the numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ..model.check import Found, ReportCard
from ..model.units import counted

if TYPE_CHECKING:
    from rich.console import Console

SHORT = {"conformance": "C", "c++": "C++", "process": "proc", "latency": "call", "system": "sys"}  # headings of the groups
# (heading, fact or case, unit); of all of them lower is better.
NUMBERS = (
    ("pair", "pair_64", ""),
    ("longest", "longest_call", ""),
    ("kept", "kept_later", "%"),
    ("trim", "kept_after_trim", "%"),
    ("thread", "growth_per_thread", ""),
    ("owners", "rotating-owners", "x"),
    ("mixed", "mixed-lifetimes", "x"),
    ("sizes", "shifting-sizes", "x"),
)
NUMBERS_EXPLAINED = (
    "pair, longest: instructions of malloc(64) and its free, and of the longest single call on a hard heap (at least: its "
    "counting ends somewhere). kept, trim: of a peak of memory, seconds after it was freed, and after malloc_trim. "
    "thread: bytes left behind by a thread that ended. owners, mixed, sizes: memory held over memory in use, in three "
    "hard patterns. Lower is better."
)
SYSTEM_NUMBERS = (
    ("served", "served_from_start", "%"),
    ("again", "served_again", "%"),
    ("peak", "group_peak", "M"),
    ("thread", "memory_per_thread", "K"),
    ("calls", "realloc_calls_per_mib", "1"),
    ("sparse", "sparse_as_set", "M"),
    ("core", "core_size", "M"),
    ("emul", "emulated_resident", "M"),
)
SYSTEM_NUMBERS_EXPLAINED = (
    "served: of the blocks that glibc has under a limit of address space, at least; again: of those, after all was freed. "
    "peak: memory of a container with 24 MiB in use. thread: memory of each of many threads at once. calls: system calls "
    "per MiB of growing buffers. sparse: memory of large blocks of which one byte is used. core: of a program with 10 MiB "
    "in use. emul: memory of a small program under qemu. M: MiB, K: KiB. Empty: it failed before, or was not looked at."
)
MISTAKES = (
    ("again", "double_free"),
    ("later", "double_free_later"),
    ("inside", "free_inside_a_block"),
    ("stack", "free_of_the_stack"),
    ("over 1", "overflow_by_1"),
    ("over 64", "overflow_by_64"),
    ("after", "write_after_free"),
)
MISTAKES_EXPLAINED = (
    "What happens when a block is freed again, at once or later; on a free inside a block, or of the stack; on a write 1 "
    "or 64 bytes beyond the end, or after free. stops: the library ended the program. crash: a signal did. "
    "reissued: one block was handed out twice. -: nothing was noticed."
)


def longest_call(card: ReportCard) -> float | None:
    """Instructions of the longest call on the largest heap that was tried."""
    sizes = call_growth(card)
    return sizes[max(sizes)] if sizes else None


def call_growth(card: ReportCard) -> dict[int, float]:
    """Instructions of the longest call by blocks in the heap."""
    prefix = "longest_call_"
    return {
        int(name.removeprefix(prefix)): value[0]
        for f in card.found for name, value in f.facts.items()
        if name.startswith(prefix) and isinstance(value, tuple)
    }


def law_of_calls(card: ReportCard) -> str:
    """How the longest call grows with the heap, in words; "" with too few sizes."""
    from ..stats.growth import LEAST_SIZES, growth_of
    from .trend_words import LAWS

    sizes = call_growth(card)
    if len(sizes) < LEAST_SIZES:
        return ""
    growth = growth_of(list(sizes), list(sizes.values()))
    count, blocks = f"{max(sizes.values()):,.0f} instructions", f"up to {max(sizes):,} blocks"
    if any(f.case.name == "longest-call" and f.said.startswith("a single call takes more") for f in card.found):
        return f"more than {count} {blocks}: counting ended there"
    told = f"O({LAWS[growth.answer]})" if growth.answer in LAWS else f"no single law ({growth.reason})"
    return f"at most {count} {blocks}; best law {told}, slope {growth.slope.value:.2f} (log-log)"


def blowup(card: ReportCard, name: str) -> float | None:
    value = next((f.facts.get("blowup") for f in card.found if f.case.name == name), None)
    return value[0] if isinstance(value, tuple) else None


def verdict_of(card: ReportCard) -> str:
    """One sentence: is it safe to switch?"""
    judged = card.judged
    rest = "" if card.complete else "; the check was interrupted"
    if card.failed:
        fail = "the one case fails" if len(judged) == 1 else f"{len(card.failed)} of {len(judged)} cases fail"
        return f"{fail}{rest}"
    if not judged:
        return f"no case was judged{rest}"
    notes = f", with {counted(len(card.noted), 'note')}" if card.noted else ""
    passes = "the one case passes" if len(judged) == 1 else f"all {len(judged)} cases pass"
    return f"{passes}{notes}{rest}"


def print_card(console: Console, card: ReportCard, alone: bool = True) -> None:
    """One library: verdict, groups, what failed and what is to be noted, facts; what was not looked at, if it is alone."""
    allocator = card.allocator
    title = Text(f"{allocator.name} {allocator.version}".strip(), style="bold")
    console.print(title + Text(": ") + Text(verdict_of(card), style="red" if card.failed else "green"))
    for found in (*card.failed, *card.noted):
        sign, style = ("x", "red") if found.verdict == "fail" else ("!", "yellow")
        _print_found(console, found, sign, style)
    for found in card.found:
        if found.verdict == "information" and found.said:
            _print_found(console, found, "-", "")
    for found in card.found:
        if found.verdict == "skipped" and alone:
            _print_found(console, found, "?", "dim", before="not looked at: ")
    if law := law_of_calls(card):
        console.print(Text("\n".join(textwrap.wrap(f"longest call: {law}", console.width - 2, initial_indent="  ",
                                                   subsequent_indent="    "))), soft_wrap=True)
    groups = dict.fromkeys(f.case.group for f in card.judged)
    counts = []
    for group in groups:
        of_group = [f for f in card.judged if f.case.group == group]
        counts.append(f"{group} {sum(f.verdict != 'fail' for f in of_group)}/{len(of_group)}")
    told = textwrap.wrap(", ".join(counts), console.width - 2, initial_indent="  ", subsequent_indent="  ")
    console.print(Text("\n".join(told), style="dim"), soft_wrap=True)


def _print_found(console: Console, found: Found, sign: str, style: str, before: str = "") -> None:
    console.print(_sentence(console, f"{sign} {found.case.label}: {before}{found.said}", style), soft_wrap=True)


def _sentence(console: Console, text: str, style: str) -> Text:
    lines = textwrap.wrap(text, console.width - 2, initial_indent="  ", subsequent_indent="    ")
    return Text("\n".join(lines), style=style)


def print_comparison(console: Console, cards: Sequence[ReportCard]) -> None:
    """All libraries beside each other: cases per group, numbers, mistakes, and what was not looked at, once for all."""
    console.print()
    console.print(_groups(cards))
    if any(longest_call(card) is not None or blowup(card, "mixed-lifetimes") is not None for card in cards):
        console.print()
        console.print(_numbers(cards, NUMBERS))
        console.print(Text(NUMBERS_EXPLAINED, style="dim"))
    if any(card.number(fact) is not None for card in cards for _, fact, _ in SYSTEM_NUMBERS):
        console.print()
        console.print(_numbers(cards, SYSTEM_NUMBERS))
        console.print(Text(SYSTEM_NUMBERS_EXPLAINED, style="dim"))
    if any(card.words(MISTAKES[0][1]) for card in cards):
        console.print()
        console.print(_mistakes(cards))
        console.print(Text(MISTAKES_EXPLAINED, style="dim"))
    unseen: dict[tuple[str, str], list[str]] = {}
    for card in cards:
        for found in card.found:
            if found.verdict == "skipped":
                unseen.setdefault((found.case.label, found.said), []).append(card.allocator.name)
    for (label, said), names in unseen.items():
        whose = "" if len(names) == len(cards) else f" ({', '.join(names)})"
        console.print(_sentence(console, f"? {label}: not looked at: {said}{whose}", "dim"), soft_wrap=True)


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")


def _name(table: Table) -> None:
    table.add_column("allocator", no_wrap=True, overflow="ellipsis", max_width=23)


def _groups(cards: Sequence[ReportCard]) -> Table:
    table = _table()
    _name(table)
    groups = list(dict.fromkeys(f.case.group for card in cards for f in card.judged))
    for group in groups:
        table.add_column(SHORT.get(group, group), justify="right", no_wrap=True)
    table.add_column("notes", justify="right")
    for card in cards:
        row = []
        for group in groups:
            verdicts = [f.verdict for f in card.judged if f.case.group == group]
            passed = sum(v != "fail" for v in verdicts)
            row.append(Text(f"{passed}/{len(verdicts)}", style="" if passed == len(verdicts) else "red"))
        table.add_row(Text(card.allocator.name, style="red" if card.failed else ""), *row, str(len(card.noted) or ""))
    return table


def _numbers(cards: Sequence[ReportCard], numbers: Sequence[tuple[str, str, str]]) -> Table:
    table = _table()
    _name(table)
    for heading, *_ in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    for card in cards:
        row = []
        for _, fact, unit in numbers:
            value = longest_call(card) if fact == "longest_call" else card.number(fact)
            if value is None and unit == "x":
                value = blowup(card, fact)
            row.append("" if value is None else _shown(value, unit))
        table.add_row(card.allocator.name, *row)
    return table


def _shown(value: float, unit: str) -> str:
    if unit == "x":
        return f"{value:.1f}x"
    if unit == "1":
        return f"{value:.2f}"
    return f"{value:,.0f}{unit}"


def _mistakes(cards: Sequence[ReportCard]) -> Table:
    table = _table()
    _name(table)
    for heading, _ in MISTAKES:
        table.add_column(heading)
    for card in cards:
        table.add_row(card.allocator.name, *(short(card.words(fact)) for _, fact in MISTAKES))
    return table


def short(words: str) -> str:
    """A mistake's outcome in one word."""
    known = {"unnoticed": "-", "gives a block out twice": "reissued", "crashes": "crash", "": "?"}
    return known.get(words, words.partition(":")[0])

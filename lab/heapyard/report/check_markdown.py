# SPDX-License-Identifier: Apache-2.0
"""What `heapyard check` found, written into a page between its two marks (docs/check.md)."""

from __future__ import annotations

import io
import re
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from ..model.check import ReportCard
from ..model.errors import UsageError
from ..model.huge_pages import FACT, chosen, in_words
from .report_card import print_comparison

BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->"
WIDTH = 80  # of a terminal
PAGE = 132


def write_between_marks(page: Path, cards: Sequence[ReportCard], machine: Mapping[str, object], amount: str) -> None:
    """The date, the machine, versions, the comparison, and each fault with who has it. UsageError without the marks."""
    before, after = around_marks(page)
    page.write_text(before + BEGIN + measured(cards, machine, amount) + END + after)


def around_marks(page: Path) -> tuple[str, str]:
    """What stands before and after them; UsageError without them."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UsageError(f"{page} lacks the lines {BEGIN.strip()} and {END}")
    return before, after


def measured(cards: Sequence[ReportCard], machine: Mapping[str, object], amount: str) -> str:
    """`machine` is a snapshot of the environment (execute/environment.py)."""
    cpu = machine["cpu"]
    model = cpu.get("model", "unknown") if isinstance(cpu, Mapping) else "unknown"
    where = f"{machine['cpus_online']} processors ({model}), Linux {machine['kernel']}, {machine['distribution']}"
    if pages := in_words(chosen(str(machine.get(FACT, "")))):
        where += f", {pages}"
    versions = ", ".join(f"{c.allocator.name} {c.allocator.version}" for c in cards if c.allocator.version)
    seconds = sum(found.seconds for card in cards for found in card.found)
    head = f"On {time.strftime('%Y-%m-%d')}, {where}; {amount} amount of work, {seconds / 60:.0f} min in all: {versions}."
    return (textwrap.fill(head, PAGE, break_on_hyphens=False) + f"\n\n```\n{_comparison(cards)}\n```\n\n"
            "What fails, case by case; of sentences that differ in figures alone, the first:\n\n"
            + "\n".join(faults(cards) or ["- nothing"]) + "\n")


def faults(cards: Sequence[ReportCard]) -> list[str]:
    """A line per fault: the case, who has it, the sentence of the first. Sentences that differ in figures alone are one."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    order = {case.label: i for i, case in enumerate(dict.fromkeys(f.case for card in cards for f in card.found))}
    for card in cards:
        for found in card.failed:
            kind = re.sub(r"[\d.,]+", "#", found.said)
            groups.setdefault((found.case.label, kind), []).append((card.allocator.name, found.said))
    lines = []
    for (label, _), having in sorted(groups.items(), key=lambda item: order[item[0][0]]):
        names = ", ".join(name for name, _ in having)
        line = f"- **{label}** ({names}): {_plain(having[0][1])}."
        lines.append(textwrap.fill(line, PAGE, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False))
    return lines


def _plain(said: str) -> str:
    """Without what Markdown would read as markup."""
    return re.sub(r"([*_`<>|\[\]])", r"\\\1", said)


def _comparison(cards: Sequence[ReportCard]) -> str:
    written = io.StringIO()
    print_comparison(Console(file=written, width=WIDTH, no_color=True, color_system=None), cards)
    return "\n".join(line.rstrip() for line in written.getvalue().strip("\n").splitlines())

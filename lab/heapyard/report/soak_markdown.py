# SPDX-License-Identifier: Apache-2.0
"""What `heapyard soak` found, written into a page between its two marks (docs/soak.md)."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..model.soak import SoakAnswer
from ..model.units import format_duration
from .check_markdown import BEGIN, END, PAGE, around_marks
from .soak_table import COLUMNS, cells, headline, in_words

__all__ = ["around_marks", "write_between_marks"]


def write_between_marks(page: Path, answers: Sequence[SoakAnswer], machine: Mapping[str, object]) -> None:
    """The date, the machine, and for each library a table and what differs. UsageError without the marks.

    `machine` is a snapshot of the environment (execute/environment.py).
    """
    before, after = around_marks(page)
    where = f"{machine['cpus_online']} processors, Linux {machine['kernel']}, {machine['distribution']}"
    head = f"On {time.strftime('%Y-%m-%d')}, {where}."
    page.write_text(before + BEGIN + "\n".join([head, "", *(line for answer in answers for line in _lines(answer))]) + END + after)


def _lines(answer: SoakAnswer) -> Iterator[str]:
    yield f"## {answer.name}\n"
    yield f"{headline(answer)} ({format_duration(answer.seconds)} of the last command).\n"
    yield "| " + " | ".join(COLUMNS) + " |"
    yield "|" + "|".join("---" if name in ("program", "version") else "--:" for name in COLUMNS) + "|"
    for program in answer.programs:
        if not program.remedy:
            yield "| " + " | ".join(cells(program)) + " |"
    yield ""
    for program in answer.programs:
        told = [f"did not run: {program.remedy}"] if program.remedy else []
        told += [f"`{compared.test}`: {in_words(compared)}" for compared in program.differences]
        told += [f"`{compared.test}` failed once and not again: {', '.join(compared.once)}" for compared in program.once]
        for line in told:
            yield textwrap.fill(f"- {program.suite.name}: {line}", PAGE, subsequent_indent="  ", break_on_hyphens=False,
                                break_long_words=False)
    yield ""

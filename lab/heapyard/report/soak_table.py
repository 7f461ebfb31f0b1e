# SPDX-License-Identifier: Apache-2.0
"""The answer of `heapyard soak` for people: one headline, one row per program, and what each difference is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.soak import Compared, ProgramAnswer, SoakAnswer
from ..model.units import counted, format_duration

if TYPE_CHECKING:
    from rich.console import Console

MOST = 20  # differences of one program that are shown


def headline(answer: SoakAnswer) -> str:
    """The whole answer as one sentence."""
    ran = [program for program in answer.programs if program.seen]
    tests, cases = sum(program.seen for program in ran), sum(program.cases for program in ran)
    if not ran:
        return f"{answer.name}: no test has run"
    of = f"{counted(tests, 'test')} ({cases:,} cases) of {counted(len(ran), 'program')}"
    result = f"{counted(answer.differences, 'difference')} from glibc in" if answer.differences else "as under glibc in all of"
    return f"{answer.name}: {result} {of}"


def print_answer(console: Console, answer: SoakAnswer) -> None:
    from rich.table import Table

    style = "bold red" if answer.differences else "bold green"
    console.print(f"[{style}]{headline(answer)}[/] ({format_duration(answer.seconds)}).", soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in COLUMNS:
        if name != "version":  # 80 characters must do
            table.add_column(name, justify="left" if name == "program" else "right", no_wrap=True)
    for program in answer.programs:
        if not program.remedy:
            table.add_row(*(cell for name, cell in zip(COLUMNS, cells(program), strict=True) if name != "version"))
    if table.rows:
        console.print(table)
    for program in answer.programs:
        if program.remedy:
            console.print(f"{program.suite.name} did not run: {program.remedy}", markup=False, soft_wrap=True)
        for compared in program.differences[:MOST]:
            _print(console, program, compared)
        if len(program.differences) > MOST:
            console.print(f"{program.suite.name}: {len(program.differences) - MOST} more; --json names them.")
        if program.once:
            names = ", ".join(f"{c.test} ({', '.join(list(c.once)[:2])})" for c in program.once[:MOST])
            console.print(f"{program.suite.name}: failed once and not again: {names}", markup=False, soft_wrap=True)
        if program.elsewhere:
            console.print(f"{program.suite.name}: malloc is not the library's in {', '.join(program.elsewhere)}", markup=False,
                          soft_wrap=True)
    if not answer.complete:
        console.print("It was interrupted; the same command goes on.")


COLUMNS = ("program", "version", "tests", "of", "cases", "rounds", "processes", "glibc fails", "differ")


def cells(program: ProgramAnswer) -> tuple[str, ...]:
    """A row of the table. `cases`: of each test's first run; `processes`: programs started whose malloc was the library's."""
    return (program.suite.name, program.version, f"{program.seen:,}", f"{program.tests:,}", f"{program.cases:,}",
            str(program.rounds), f"{program.served:,}", str(program.failing), str(len(program.differences)))


def in_words(compared: Compared, most: int = 5) -> str:
    """What a test shows under the library, and in how many runs under each."""
    marks = [f"{mark} ({here} of {len(compared.here)} runs, glibc {there} of {len(compared.there)})"
             for mark, (here, there) in list(compared.again.items())[:most]]
    more = f", and {len(compared.again) - most} more" if len(compared.again) > most else ""
    return ", ".join(marks) + more


def _print(console: Console, program: ProgramAnswer, compared: Compared) -> None:
    console.print(f"{program.suite.name}: {compared.test}: {in_words(compared)}", markup=False, soft_wrap=True)
    glibc = f"; under glibc: {compared.output_there}" if compared.output_there else ""
    console.print(f"  {compared.output}{glibc}", markup=False, soft_wrap=True)

# SPDX-License-Identifier: Apache-2.0
"""The first screen: the questions of a reader, each with the line that answers it, in 24 lines of 80 columns; and at 40."""

from __future__ import annotations

import io
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from simulated import NAMES, simulate

from heapyard.model.analysis import Analysis
from heapyard.model.huge_pages import FACT
from heapyard.model.preference import BY_TIME, Preference
from heapyard.model.record import Event, Record
from heapyard.report.terminal import print_answer
from heapyard.stats.analyse import analyse

ROOT = Path(__file__).resolve().parents[2]

# Allocators as they are found on real programs (time, memory over all of them), each program off by its own amount.
RATIOS = {
    "jemalloc": (0.926, 0.9), "mimalloc": (0.875, 1.061), "tcmalloc": (0.926, 1.16), "tbbmalloc": (0.986, 1.18),
    "scudo": (1.128, 1.28),
}  # fmt: skip


def lines(analysis: Analysis, record: Record, width: int = 80, preference: Preference = BY_TIME) -> list[str]:
    out = Console(file=io.StringIO(), width=width, highlight=False, _environ={})
    print_answer(out, analysis, record, preference=preference)
    return out.file.getvalue().splitlines()  # type: ignore[attr-defined]


def default_run(allocators: int = 5, seed: int = 5) -> tuple[Analysis, Record]:
    """Eight programs that disagree, ten blocks, a budget that ended it: as a default compare."""
    names = NAMES[:allocators]
    ratios = {name: RATIOS.get(name, (1.05, 1.1)) for name in names}
    record = simulate(allocators, 8, 10, noise=0.012, seed=seed, ratios=ratios)[1]
    dice = random.Random(seed)
    gain = {w: dice.choice((0.0, 0.0, 0.0, -0.1, -0.2)) for w in record.observations.workloads}
    rows = tuple(
        replace(r, value=r.value * (1 + gain[r.workload] + 0.075)) if r.metric == "wall" and r.treatment in ("mimalloc", "tcmalloc")
        else r
        for r in record.observations.rows
    )  # fmt: skip
    seen = replace(record.observations, rows=rows)
    spent = replace(
        record,
        observations=seen,
        environment={**record.environment, FACT: "always [madvise] never"},
        events=(Event(240.0, "budget used up", "the budget was used up"),),
        experiment=replace(record.experiment, settings=replace(record.experiment.settings, budget=240.0)),
    )
    return analyse(seen), spent


QUESTIONS = {
    "Which should I take?": r"^mimalloc: \d",
    "How much faster is it?": r"[\d.]+ % ± [\d.]+ % less time than glibc on these 8 programs",
    "What does it cost me?": r"% (more|less) memory|with the same memory",
    "Had it huge pages?": r"slower on none\. Huge pages on request \(madvise\)\.",
    "Is it sure?": r"± [\d.]+ %.*A/A control passed",
    "Where does it not hold?": r"faster on \d, slower on (none|\d \(.+?\))",
    "And for a program like mine?": r"Another program: from .+? (less|more).*?; of 10 such programs \w+ gains? and \w+ loses?",
    "How do I find out for mine?": r"try yours: heapyard compare \S+ -- YOUR COMMAND",
    "What if I care for memory?": r"Least memory: \w+ \(.+? memory, .+? time\)",
    "Which can I forget?": r"Out, worse in one and better in none: \w+",
    "How small a difference can I believe?": r"no time difference below [\d.]+ % deserves belief",
    "What would more time bring?": r"Four times the budget would bring ±[\d.]+ % of time in place of ±[\d.]+ %",
    "How do I switch?": r"To switch for good \(first run: heapyard check \w+\): heapyard wrap mimalloc",
    "Where is the rest?": r"Every number and figure.*: heapyard report \S+ --open",
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_first_screen_answers(question: str) -> None:
    text = " ".join(" ".join(lines(*default_run())).split())
    assert re.search(QUESTIONS[question], text), text


@pytest.mark.parametrize("allocators", [1, 5, 9, 14])
def test_verdict_and_table_fit_a_terminal(allocators: int) -> None:
    shown = lines(*default_run(allocators))
    assert max(map(len, shown)) <= 80
    table_ends = next(i for i, line in enumerate(shown) if line.startswith("= same"))
    assert table_ends <= 24, "\n".join(shown)
    if allocators <= 5:
        assert len(shown) <= 24, "\n".join(shown)


def test_forty_columns_hold_time_and_memory() -> None:
    shown = lines(*default_run(), width=40)
    assert max(map(len, shown)) <= 40
    head = next(line for line in shown if line.startswith("allocator"))
    assert "time" in head and "memory" in head
    row = next(line for line in shown if re.match(r"mimalloc +[-+]", line))
    assert re.match(r"mimalloc +-[\d.]+ % ±[\d.]+ +\+[\d.]+ % ±[\d.]+", row)


def test_no_fact_is_told_twice() -> None:
    text = " ".join(lines(*default_run()))
    for once in ("A/A control", "Another program:", "deserves belief", "Least memory"):
        assert text.count(once) <= 1, once


def test_the_page_on_reading_the_answer_shows_this_screen() -> None:
    """The example in docs/report.md is what this made-up experiment prints, word for word."""
    shown = lines(*default_run())
    block = "\n".join(f"    {line}".rstrip() for line in shown)
    assert block in (ROOT / "docs" / "report.md").read_text(), block

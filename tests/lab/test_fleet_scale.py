# SPDX-License-Identifier: Apache-2.0
"""What a trial costs the lab does not grow with their number: told by counts of calls and of SQLite's steps, not by time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from synthetic_fleet import blocks_of, deciding, grow, hash_of, outcome, study

from heapyard import store
from heapyard.report import page_data
from heapyard.report.html import render
from heapyard.stats.analyse import analyse

SMALL, LARGE = 96, 384  # trials of two workloads
SLACK = 1.25  # of calls per trial; what is quadratic has four times as many


def calls(work: Callable[[], Any]) -> tuple[int, Any]:
    """How many functions, of Python or C, the work calls."""
    count = 0

    def look(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        result = work()
    finally:
        sys.setprofile(before)
    return count, result


def test_the_loop_asks_as_much_of_the_thousandth_trial_as_of_the_first() -> None:
    per_trial = []
    for trials in (SMALL, LARGE):
        count, ran = calls(lambda trials=trials: sum(1 for _ in deciding(study(trials, 2))))
        assert ran == trials
        per_trial.append(count / trials)
    assert per_trial[1] < SLACK * per_trial[0]


def test_the_journal_takes_as_many_steps_for_each_trial(tmp_path: Path) -> None:
    import random

    per_trial = []
    for trials in (SMALL, LARGE):
        exp, luck, steps = study(trials, 2), random.Random(1), 0
        with store.create(exp, tmp_path) as journal:
            blocks = blocks_of(exp)
            journal.add_blocks(blocks)

            def step() -> int:
                nonlocal steps
                steps += 1
                return 0

            journal._connection.set_progress_handler(step, 1)
            for block in blocks[-4:]:  # the last ones, when all others are planned
                journal.set_node(block, "n0", {})
                for position, label in enumerate(block.order):
                    journal.end_trial(journal.start_trial(block, position), outcome(exp, block, label, 0, luck))
                journal.end_block(block, "done")
            journal._connection.set_progress_handler(None, 1)
        per_trial.append(steps / (4 * len(blocks[0].order)))
    assert per_trial[1] < SLACK * per_trial[0]


def test_reading_merging_and_judging_grow_in_step_with_the_trials(tmp_path: Path) -> None:
    per_trial: dict[str, list[float]] = {}
    for trials in (SMALL, LARGE):
        folder, count = grow(tmp_path / str(trials), trials, 5, 2)
        assert count == trials
        for name, work in {
            "read": lambda folder=folder: store.load_record(folder),
            "copy": lambda folder=folder: store.copies.read_copy(folder),
            "rows": lambda folder=folder: page_data.trial_rows(store.load_record(folder), ("wall",)),
            "analysis": lambda folder=folder: analyse(store.load_record(folder).observations),
        }.items():
            work()  # what is imported or worked out once
            per_trial.setdefault(name, []).append(calls(work)[0] / trials)
    grown = {name: large / small for name, (small, large) in per_trial.items()}
    assert max(grown.values()) < SLACK, grown


def test_a_page_has_room_for_so_many_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, count = grow(tmp_path, SMALL, 5, 2)
    record = store.load_record(folder)
    assert page_data.step_of(record) == 1
    monkeypatch.setattr(page_data, "MOST_NUMBERS", count // 2)
    rows = page_data.trial_rows(record, ("wall",))
    assert page_data.step_of(record) == 2 and len(rows) == count // 2
    assert {row["round"] for row in rows} == {1, 3}, "whole blocks"


@pytest.mark.on_request
def test_a_page_says_that_it_shows_some_of_the_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, count = grow(tmp_path, SMALL, 5, 2)
    record = store.load_record(folder)
    monkeypatch.setattr(page_data, "MOST_NUMBERS", count // 2)
    text = render(analyse(record.observations), record)
    assert "one block in 2 of each program" in text and "Every trial in the order" not in text


def test_what_is_made_up_is_made_up_alike() -> None:
    assert hash_of("n1") == hash_of("n1") != hash_of("n2") and -1 <= hash_of("n1") <= 1

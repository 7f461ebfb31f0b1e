# SPDX-License-Identifier: Apache-2.0
"""Fewer operations that still find the same, and operations as text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heapyard.execute.fuzz.shrink import shortened
from heapyard.model.errors import UsageError
from heapyard.model.fuzz import Operation, Violation, draw_round, parse_operations

OPERATIONS = st.builds(Operation, st.integers(0, 3), st.sampled_from(["malloc", "release", "look"]), st.integers(0, 511),
                       st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))


@settings(max_examples=60)
@given(st.data())
def test_what_is_left_is_what_it_takes(data: st.DataObject) -> None:
    operations = tuple(data.draw(st.lists(OPERATIONS, min_size=1, max_size=60, unique=True)))
    slots = st.sets(st.sampled_from([operation.slot for operation in operations]), min_size=1, max_size=3)
    wanted = data.draw(slots)

    def finds(some: tuple[Operation, ...]) -> bool:
        return wanted <= {operation.slot for operation in some}

    left = shortened(operations, finds, 60.0)
    assert sorted(operation.slot for operation in left) == sorted(wanted)
    assert all(operation.thread == 0 and operation.other == 0 for operation in left)


def test_no_time_is_no_change() -> None:
    operations = tuple(Operation(0, "malloc", slot, 1, 0) for slot in range(8))
    assert shortened(operations, lambda some: True, 0.0) == operations


@given(st.lists(OPERATIONS, max_size=20))
def test_text_reads_back_as_it_was(operations: list[Operation]) -> None:
    assert parse_operations(["# --turns", *map(str, operations), ""], "file") == tuple(operations)


@pytest.mark.parametrize("line", ["0 malloc 1", "x malloc 1 2 3", "0 malloc 1 2 3 4"])
def test_a_wrong_line_is_named(line: str) -> None:
    with pytest.raises(UsageError, match="file, line 2: this is no operation"):
        parse_operations(["0 malloc 1 2 3", line], "file")


def test_rounds_follow_from_their_seeds() -> None:
    rounds = [draw_round(seed) for seed in range(1, 200)]
    assert rounds == [draw_round(seed) for seed in range(1, 200)]
    assert {round_.threads for round_ in rounds} == {1, 2, 3, 4, 8}
    assert any(round_.turns for round_ in rounds) and any(round_.signals for round_ in rounds)
    assert not any(round_.turns and (round_.signals or round_.threads == 1) for round_ in rounds)
    assert {draw_round(seed, 5).threads for seed in range(50)} == {5}


def test_what_the_native_program_tells() -> None:
    told = {"finding": "overlap", "text": "malloc: gave 0x10", "thread": 2, "operation": 7, "call": "malloc", "in_child": True}
    assert Violation.of(told) == Violation("overlap", "in a forked child, malloc: gave 0x10", 2, 7, "malloc")

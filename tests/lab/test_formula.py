# SPDX-License-Identifier: Apache-2.0
"""Formulas of study files: whole-number arithmetic on the levels of factors, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heapyard.catalog.formula import evaluate, holds, names_in
from heapyard.model.errors import UsageError


def test_formulas_are_replaced_and_the_rest_stays() -> None:
    levels = {"size": "16", "list-ratio": "30"}
    assert evaluate("{size}", levels) == "16"
    assert evaluate("{2 * size - 1}_{list_ratio}x", levels) == "31_30x"
    assert evaluate("{2 ** size * 1024}", levels) == str(2**16 * 1024)
    assert evaluate("no formula", levels) == "no formula"
    assert names_in("{2 * size}_{other}") == {"size", "other"} and names_in("plain") == set()


def test_a_lone_name_gives_the_level_as_it_stands() -> None:
    assert evaluate("{how}", {"how": "fifo:13"}) == "fifo:13"


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("{moon}", "not a factor"),
        ("{size +}", "not a formula"),
        ("{size / 2}", "not a formula of whole numbers"),
        ("{__import__('os')}", "not a formula of whole numbers"),
        ("{size.real}", "not a formula of whole numbers"),
        ("{2 ** 63}", "not within 0 to 62"),
        ("{2 ** 62 * 4}", "beyond 2^62"),
        ("{size // 0}", "divides by zero"),
        ("{how + 1}", "not a whole number"),
        ("{}", "not a formula"),
    ],
)
def test_what_is_no_formula_is_refused_in_one_sentence(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint.replace("^", r"\^")) as caught:
        evaluate(text, {"size": "16", "how": "fifo"})
    assert "\n" not in caught.value.message


@given(st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_the_arithmetic_is_that_of_whole_numbers(a: int, b: int) -> None:
    assert evaluate("{a * b + a - b}", {"a": str(a), "b": str(b)}) == str(a * b + a - b)


@given(st.text(max_size=40))
def test_no_text_does_more_than_complain(text: str) -> None:
    try:
        evaluate(text, {"a": "1"})
    except UsageError as error:
        assert error.message


@pytest.mark.parametrize(
    "condition, met",
    [
        ("threads <= 4", True),
        ("threads > processors", True),
        ("threads <= processors or size == 16", True),
        ("not (threads == 4)", False),
        ("1 < threads < 2 * processors", False),
        ("how == 'fifo'", True),
        ("how != 'fifo' and size > 1", False),
        ("list_ratio >= 30", True),
    ],
)
def test_conditions_compare_levels(condition: str, met: bool) -> None:
    levels = {"threads": "4", "processors": "2", "size": "16", "how": "fifo", "list-ratio": "30"}
    assert holds(condition, levels) is met


@pytest.mark.parametrize("condition", ["", "threads", "threads < ", "moon < 3", "threads in (1, 2)", "print(1) < 2", "how < 3"])
def test_what_is_no_condition_is_refused(condition: str) -> None:
    with pytest.raises(UsageError):
        holds(condition, {"threads": "4", "how": "fifo"})

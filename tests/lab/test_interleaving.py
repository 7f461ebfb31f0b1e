# SPDX-License-Identifier: Apache-2.0
"""Slices or whole trials: which rounds run how, which lead, and what is then said of a program."""

from __future__ import annotations

import math
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heapyard.design.interleaving import LONGEST, SHORTEST, Timed, interpreted, is_whole, rounds_for, slice_length, slices_lead
from heapyard.model.experiment import Settings
from heapyard.model.metrics import ALONE, METRICS, TIMES


@given(st.integers(1, 200), st.integers(2, 12))
def test_rounds_for_is_the_first_number_with_so_many_in_slices(sliced: int, pilot: int) -> None:
    rounds = rounds_for(sliced, pilot)
    assert sum(not is_whole(n, pilot) for n in range(rounds)) == sliced
    assert not is_whole(rounds - 1, pilot)


@pytest.mark.parametrize("pilot", range(3, 12))
def test_the_pilot_has_both(pilot: int) -> None:
    whole = [is_whole(n, pilot) for n in range(pilot)]
    assert 1 <= sum(whole) < pilot and whole == sorted(whole, reverse=True)
    assert 0 < sum(is_whole(n, pilot) for n in range(pilot, pilot + 60)) <= 15  # memory goes on being looked at


AUTO = Settings(interleave="auto")


def timed(sd_whole: float, sd_slices: float, cost: float = 1.0, whole: int = 3, sliced: int = 3, labels: str = "abcdefgh"):
    draw = np.random.default_rng(4)
    for block in range(whole + sliced):
        turns = block >= whole
        speed = draw.normal(0, 0.1)
        for n, label in enumerate(labels):
            noise = draw.normal(0, sd_slices if turns else sd_whole)
            wall = math.exp(speed + 0.1 * n + noise) * (cost if turns else 1)
            yield Timed("pilot", block, block, label, turns, wall)


def lead(*pilots, settings: Settings = AUTO) -> list[bool]:
    return list(slices_lead(settings, {str(n): pilot for n, pilot in enumerate(pilots)}).values())


def test_the_more_precise_lead() -> None:
    assert lead(timed(0.08, 0.01)) == [True]
    assert lead(timed(0.01, 0.08)) == [False]
    assert lead(timed(0.03, 0.01, cost=1.5)) == [True]
    assert lead(timed(0.01, 0.0095, cost=1.5)) == [False]  # no gain, and it takes half as long again


def test_what_is_measured_already_counts() -> None:
    many = string.ascii_letters  # treatments, so that chance is small
    assert lead(timed(0.01, 0.01, cost=1.4, labels=many)) == [False]
    assert lead(timed(0.01, 0.01, cost=1.4, whole=2, sliced=4, labels=many)) == [True]


def test_two_quiet_rounds_of_one_program_do_not_decide_but_much_noise_in_slices_does() -> None:
    others = [list(timed(0.05, 0.015)) for _ in range(6)]
    quiet = list(timed(0.008, 0.017, cost=1.15))
    assert lead(quiet) == [False]
    assert lead(*others, quiet) == [True] * 7
    assert lead(*others, timed(0.008, 0.17)) == [True] * 6 + [False]


def test_what_is_asked_for_is_done() -> None:
    noisy = list(timed(0.01, 0.08))
    assert lead(noisy, settings=Settings(interleave="slices")) == [True]
    assert lead(noisy, settings=Settings(interleave="trials")) == [False]
    whole = [row for row in noisy if not row.sliced]
    assert lead(whole, settings=Settings(interleave="slices")) == lead(whole) == lead([]) == [False]


def test_blocks_that_lack_a_treatment_do_not_decide() -> None:
    rows = [row for row in timed(0.08, 0.01, whole=4, sliced=4) if not (row.block == 1 and row.treatment == "c")]
    assert lead(rows) == [True]
    assert lead([row for row in rows if row.block in (0, 4)]) == [True]  # too few to tell: as begun


@pytest.mark.parametrize("decided", [False, True])
def test_what_the_rounds_after_the_pilot_were_stays(decided: bool) -> None:
    pilot = list(timed(0.08, 0.01) if not decided else timed(0.01, 0.08))
    number = AUTO.pilot_blocks
    while not is_whole(number, AUTO.pilot_blocks):
        number += 1
    scheduled = [Timed("main", number, 90, label, False, 1.0) for label in "abcdefgh"]
    assert lead([*pilot, *scheduled]) == [not decided]
    main = [Timed("main", AUTO.pilot_blocks, 91, label, decided, 1.0) for label in "abcdefgh"]
    assert lead([*pilot, *scheduled, *main]) == [decided]


def test_a_slice_is_as_long_as_caches_ask_for() -> None:
    assert slice_length(0.98) == slice_length(1.05) == SHORTEST
    assert slice_length(1.4) == pytest.approx(0.02)
    assert slice_length(9.0) == LONGEST


def test_times_come_from_slices_and_the_rest_from_whole_trials() -> None:
    whole = {"wall": 1.0, "cpu": 0.9, "user": 0.8, "sys": 0.1, "charged": 5.0, "maps": 7.0}
    sliced = whole | {"slices": 40.0}
    assert interpreted(sliced, lead=True) == {n: v for n, v in sliced.items() if n in (*TIMES, "slices")}
    alone = interpreted(whole, lead=True)
    assert alone == {"wall_alone": 1.0, "cpu_alone": 0.9, "user_alone": 0.8, "sys_alone": 0.1, "charged": 5.0, "maps": 7.0}
    assert interpreted(whole, lead=False) == whole and interpreted(sliced, lead=False) == {}
    assert all(name + ALONE in METRICS for name in TIMES)

# SPDX-License-Identifier: Apache-2.0
"""Slices or whole trials: which rounds run how, which lead, and what is then said of a program."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heapyard.design.interleaving import LONGEST, SHORTEST, interpreted, is_whole, rounds_for, slice_length, slices_lead
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


def timed(sd_whole: float, sd_slices: float, cost: float = 1.0, blocks: int = 3, labels: str = "abcdefgh"):
    draw = np.random.default_rng(4)
    for block in range(2 * blocks):
        sliced = block >= blocks
        speed = draw.normal(0, 0.1)
        for n, label in enumerate(labels):
            noise = draw.normal(0, sd_slices if sliced else sd_whole)
            yield block, label, sliced, math.exp(speed + 0.1 * n + noise) * (cost if sliced else 1)


def test_the_more_precise_lead() -> None:
    assert slices_lead("auto", timed(0.08, 0.01))
    assert not slices_lead("auto", timed(0.01, 0.08))
    assert slices_lead("auto", timed(0.03, 0.01, cost=1.5))
    assert not slices_lead("auto", timed(0.01, 0.0095, cost=1.5))  # no gain, and it takes half as long again


def test_what_is_asked_for_is_done() -> None:
    noisy = list(timed(0.01, 0.08))
    assert slices_lead("slices", noisy) and not slices_lead("trials", noisy)
    whole = [row for row in noisy if not row[2]]
    assert not slices_lead("slices", whole) and not slices_lead("auto", whole) and not slices_lead("auto", [])


def test_blocks_that_lack_a_treatment_do_not_decide() -> None:
    rows = [row for row in timed(0.08, 0.01, blocks=4) if not (row[0] == 1 and row[1] == "c")]
    assert slices_lead("auto", rows)
    assert slices_lead("auto", [row for row in rows if row[0] in (0, 4)])  # too few to tell: as begun


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

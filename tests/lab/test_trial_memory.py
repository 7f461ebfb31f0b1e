# SPDX-License-Identifier: Apache-2.0
"""Time averages of memory sampled at uneven times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heapyard.execute.memory_series import LEAST_PSS, averages


def test_a_constant_is_its_own_average() -> None:
    samples = [(0.1, 50, 40), (0.2, 50, -1), (0.9, 50, 40), (0.95, 50, 40)]
    assert averages(samples, 1.0, 99) == (pytest.approx(50), pytest.approx(40), pytest.approx(0.7))


def test_a_ramp_is_integrated_exactly() -> None:
    """Memory 100 t over one second, seen at uneven times: the average is 50."""
    times = [0.0, 0.1, 0.15, 0.6, 1.0]
    mean, _, gap = averages([(t, 100 * t, -1) for t in times], 1.0, 100)
    assert mean == pytest.approx(50) and gap == pytest.approx(0.45)


def test_proportional_size_is_averaged_over_its_own_looks() -> None:
    samples = [(0.0, 8, 4), (0.25, 1000, -1), (0.5, 8, 4), (1.0, 8, 4)]
    assert averages(samples, 1.0, 1000)[1] == pytest.approx(4)


def test_too_few_looks_at_proportional_size_give_no_average() -> None:
    samples = [(i / 10, 8, 4 if i < LEAST_PSS - 1 else -1) for i in range(10)]
    assert averages(samples, 1.0, 8)[1] is None


def test_a_program_too_short_to_be_seen_counts_with_its_peak() -> None:
    assert averages([], 0.002, 777) == (777, None, 0.002)
    assert averages([(0.003, 5, 5)], 0.002, 777) == (777, None, 0.002)  # a look after its end is not of it


@given(
    st.lists(st.tuples(st.floats(0, 2), st.integers(1, 10**12), st.integers(-1, 10**12)), max_size=30),
    st.floats(1e-4, 2),
)
def test_an_average_lies_among_its_samples(samples: list[tuple[float, int, int]], wall: float) -> None:
    samples.sort()
    used = [s for s in samples if s[0] <= wall]
    mean, pss, gap = averages(samples, wall, 5)
    low, high = (min(s[1] for s in used), max(s[1] for s in used)) if used else (5, 5)
    assert low * (1 - 1e-9) <= mean <= high * (1 + 1e-9)
    assert pss is None or 0 <= pss <= 10**12 * (1 + 1e-9)
    assert 0 < gap <= wall

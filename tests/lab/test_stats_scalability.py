# SPDX-License-Identifier: Apache-2.0
"""The Universal Scalability Law: published fits, intervals that hold, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heapyard.stats.scalability import fit_scalability, why_not

# SPEC SDM 91 on a SPARCcenter 2000, the data set of R's package usl: simulated users and scripts per hour.
LOAD = np.array([1, 18, 36, 72, 108, 144, 216])
THROUGHPUT = np.array([64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2])


def test_the_published_fit() -> None:
    """As the package prints it: coefficients with standard errors, efficiency, residuals, peak and limit."""
    found = fit_scalability(LOAD, THROUGHPUT, processors=216, errors="absolute")
    assert found.alpha.value == pytest.approx(0.0277285, abs=5e-8)
    assert found.beta.value == pytest.approx(0.0001044, abs=5e-8)
    assert found.gamma.value == pytest.approx(89.9952330, abs=5e-7)
    gamma, alpha, beta = found.errors
    assert gamma == pytest.approx(14.2134894, abs=5e-7)
    assert alpha == pytest.approx(0.0091217, abs=5e-8) and beta == pytest.approx(0.0000199, abs=5e-8)
    efficiency = np.quantile(found.efficiency, [0, 0.25, 0.5, 0.75, 1])
    assert efficiency == pytest.approx([0.0876, 0.1626, 0.2860, 0.5624, 0.7211], abs=5e-5)
    residuals = np.quantile(found.throughput - found.fitted, [0, 0.25, 0.5, 0.75, 1])
    assert residuals == pytest.approx([-81.7, -48.3, -25.1, 29.5, 111.1], abs=0.05)
    assert found.peak == pytest.approx(96.5, abs=0.05) and found.limit == pytest.approx(3245.6, abs=0.05)
    half = 2.77645 * 0.0091217  # t on 4 degrees of freedom
    assert (found.alpha.low, found.alpha.high) == pytest.approx((0.0277285 - half, 0.0277285 + half), abs=1e-6)


def law(n: np.ndarray, gamma: float, alpha: float, beta: float) -> np.ndarray:
    return gamma * n / (1 + alpha * (n - 1) + beta * n * (n - 1))


@pytest.mark.parametrize("errors", ["relative", "absolute"])
@pytest.mark.parametrize(
    ("gamma", "alpha", "beta"), [(5e6, 0.05, 0.001), (1.0, 0.3, 0.02), (2e-3, 0.0, 0.0), (40.0, 1.0, 0.0)]
)
def test_an_exact_law_is_recovered(gamma: float, alpha: float, beta: float, errors: str) -> None:
    n = np.array([1, 2, 3, 4, 6, 8, 12, 16.0])
    found = fit_scalability(n, law(n, gamma, alpha, beta), processors=16, errors=errors)
    assert found.gamma.value == pytest.approx(gamma, rel=1e-6)
    assert (found.alpha.value, found.beta.value) == pytest.approx((alpha, beta), abs=1e-7)
    assert found.residual_sd <= 1e-6 * gamma


@pytest.mark.parametrize("counts", [(1, 2, 3, 4), (1, 2, 4, 8, 16)])
@pytest.mark.parametrize("truth", [(100.0, 0.05, 0.004), (100.0, 0.02, 0.0), (100.0, 0.0, 0.0)])
def test_intervals_hold_the_truth_at_the_edge_too(counts: tuple[int, ...], truth: tuple[float, float, float]) -> None:
    """Nominal 95 % with 2 % noise; more at the bound. On four processors one rate is often estimated as 0."""
    rng = np.random.default_rng(2)
    n = np.repeat(counts, 5).astype(float)
    held = np.zeros(3)
    for _ in range(200):
        found = fit_scalability(n, law(n, *truth) * np.exp(rng.normal(0, 0.02, len(n))), processors=16)
        assert found.alpha.value >= 0 and found.beta.value >= 0
        estimates = (found.gamma, found.alpha, found.beta)
        held += [e.low <= true <= e.high for e, true in zip(estimates, truth, strict=True)]
    assert (held / 200 >= 0.905).all(), held / 200  # 95 % - 3 standard errors
    if min(truth) > 0:
        assert (held / 200 <= 0.99).all(), held / 200


def test_what_would_be_negative_is_nought_and_its_estimate_lies_in_its_interval() -> None:
    """Throughput that grows more than in proportion has neither contention nor coherency cost."""
    n = np.array([1, 2, 3, 4, 5.0])
    found = fit_scalability(n, n**1.2, processors=8)
    assert found.alpha.value == 0 and math.isinf(found.limit)
    assert found.beta.value == 0 and math.isinf(found.peak)
    saturated = fit_scalability(n, law(n, 10, 0.2, -0.002), processors=8)
    assert saturated.beta.value == 0 < saturated.alpha.value < 0.2
    for one in (found, saturated):
        assert all(e.low <= e.value <= e.high for e in (one.gamma, one.alpha, one.beta))


def test_oversubscribed_threads_take_no_part() -> None:
    n = np.array([1, 2, 3, 4, 8, 16.0])
    x = law(n, 10, 0.1, 0.01)
    x[4:] = 1.0  # beyond the processors anything may happen
    found = fit_scalability(n, x, processors=4)
    assert found.alpha.value == pytest.approx(0.1, abs=1e-6) and found.threads.tolist() == [1, 2, 3, 4]


def test_refused_beyond_what_the_machine_can_show() -> None:
    sentence = "a scalability law needs 4 different thread counts up to the machine's 2 processors; measured there: 1, 2"
    assert why_not([1, 2, 4, 8, 1, 2], 2) == sentence
    with pytest.raises(ValueError, match="measured there: 1, 2"):
        fit_scalability([1, 2, 4, 8], [1, 2, 3, 4], processors=2)
    assert why_not([8], 2).endswith("measured there: none")
    assert why_not([1, 2, 3, 4], 4) == ""
    with pytest.raises(ValueError, match="positive throughputs"):
        fit_scalability([1, 2, 3, 4], [1, 2, 0, 4], processors=4)

"""The bootstrap over workloads and blocks: coverage, agreement with t, chances of being best."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heapyard.stats.hierarchical import hierarchical_bootstrap

TRUTH = math.log(0.95)


def programs(rng: np.random.Generator, workloads: int, blocks: int = 6, between: float = 0.03) -> list[np.ndarray]:
    """Baseline, one of which the effect varies from program to program about TRUTH, and an equal of the baseline."""
    effects = rng.normal(0, between, (workloads, 3)) * [0, 1, 1] + [0, TRUTH, 0]
    return [
        rng.normal(0, 0.01, (blocks, 3)) + rng.normal(0, 0.1, (blocks, 1)) + rng.normal(3, 2) + effect
        for effect in effects
    ]


@pytest.mark.parametrize("workloads", [6, 15])
def test_intervals_hold_the_truth_of_programs_of_this_kind(workloads: int) -> None:
    rng = np.random.default_rng(workloads)
    held = 0
    for seed in range(400):
        found = hierarchical_bootstrap(programs(rng, workloads), 0, draws=600, seed=seed).intervals[1]
        held += found.low <= math.exp(TRUTH) <= found.high
    assert 0.92 <= held / 400 <= 0.98


def test_workloads_weigh_alike_however_many_blocks() -> None:
    many, few = np.zeros((40, 2)), np.zeros((4, 2))
    few[:, 1] = 0.1
    found = hierarchical_bootstrap([many, few], 0).intervals[1]
    assert found.ratio == pytest.approx(math.exp(0.05))


def test_the_interval_is_about_that_of_t_over_workloads() -> None:
    from scipy import stats

    made = programs(np.random.default_rng(3), 12)
    found = hierarchical_bootstrap(made, 0).intervals[1]
    means = [(y[:, 1] - y[:, 0]).mean() for y in made]
    oracle = stats.ttest_1samp(means, 0).confidence_interval()
    assert math.log(found.high / found.low) == pytest.approx(oracle.high - oracle.low, rel=0.2)


def test_drift_of_blocks_cancels() -> None:
    """What treatments share in a block is no noise, however large."""
    rng = np.random.default_rng(4)
    made = [rng.normal(0, 1, (8, 1)) + np.array([0.0, 0.02]) for _ in range(6)]
    found = hierarchical_bootstrap(made, 0).intervals[1]
    assert (found.low, found.high) == pytest.approx((math.exp(0.02), math.exp(0.02)))


def test_chances_of_being_best() -> None:
    found = hierarchical_bootstrap(programs(np.random.default_rng(5), 10), 0)
    assert sum(found.best) == pytest.approx(1) and found.best[1] > 0.9
    worst = hierarchical_bootstrap([-y for y in programs(np.random.default_rng(5), 10)], 0)
    assert worst.best[1] < 0.05
    assert found.intervals[0].low == found.intervals[0].high == 1


def test_few_workloads_have_no_interval_and_seeds_repeat() -> None:
    made = programs(np.random.default_rng(6), 4)
    found = hierarchical_bootstrap(made, 0)
    assert found.intervals[1].high == math.inf and 0 < found.intervals[1].ratio < 1.2
    five = programs(np.random.default_rng(6), 5)
    assert hierarchical_bootstrap(five, 0, seed=1) == hierarchical_bootstrap(five, 0, seed=1)
    assert hierarchical_bootstrap(five, 0, seed=1) != hierarchical_bootstrap(five, 0, seed=2)


def test_blocks_may_differ_in_number() -> None:
    rng = np.random.default_rng(7)
    made = [rng.normal(0, 0.01, (blocks, 2)) + [0, 0.1] for blocks in (1, 3, 6, 6, 20)]
    found = hierarchical_bootstrap(made, 0).intervals[1]
    assert found.low < math.exp(0.1) < found.high and found.high < 1.2

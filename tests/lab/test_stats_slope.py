# SPDX-License-Identifier: Apache-2.0
"""Slopes over hours: intervals that cover the truth though neighbouring samples are alike; rows, spikes, leak or fragments."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import statsmodels.api as sm
from heapyard.model.hours import Noted, Pass, Sample
from heapyard.stats.hours import Live, answer_of, spikes_of
from heapyard.stats.slope import BLOCKS, slope_of
from scipy import stats
from scipy.signal import lfilter

SAMPLES = 800
AT = np.arange(SAMPLES) * 4.5  # an hour
TRUE = 0.01


def alike(random: np.random.Generator, share: float) -> np.ndarray:
    """Errors of variance 1 that forget each other over `share` of the run."""
    phi = np.exp(-1 / (share * SAMPLES)) if share else 0.0
    first = random.standard_normal() * phi / np.sqrt(1 - phi**2)
    return np.sqrt(1 - phi**2) * lfilter([1.0], [1.0, -phi], random.standard_normal(SAMPLES), zi=[first])[0]


def covered(share: float, cuts: tuple[int, ...], runs: int = 200) -> float:
    """How often the interval holds the true slope; at each cut another stretch begins, with another level."""
    random = np.random.default_rng(36)
    hits = 0
    for _ in range(runs):
        y = 5 + TRUE * AT + alike(random, share)
        for cut in cuts:
            y[cut:] += 7
        slope = slope_of(list(zip(np.split(AT, cuts), np.split(y, cuts), strict=True)))
        assert slope is not None
        hits += abs(slope.value - TRUE) <= slope.half
    return hits / runs


@pytest.mark.parametrize(("share", "cuts", "least"), [(0.0, (), 0.92), (0.01, (), 0.92), (0.03, (), 0.9), (0.1, (), 0.88),
                                                        (0.03, (450,), 0.9)])
def test_intervals_cover_the_slope(share: float, cuts: tuple[int, ...], least: float) -> None:
    assert covered(share, cuts) >= least


def test_an_interval_that_ignores_likeness_would_not_cover() -> None:
    """So the simulation can tell a good interval from a bad one: here that of Newey and West, with the usual lag."""
    random, hits = np.random.default_rng(36), 0
    for _ in range(60):
        fit = sm.OLS(5 + TRUE * AT + alike(random, 0.03), sm.add_constant(AT)).fit(cov_type="HAC", cov_kwds={"maxlags": 6})
        low, high = fit.conf_int()[1]
        hits += low <= TRUE <= high
    assert hits < 48


def test_the_line_is_that_of_generalised_least_squares() -> None:
    y = 5 + TRUE * AT + 20 * alike(np.random.default_rng(3), 0.05)
    slope = slope_of([(AT, y)])
    assert slope is not None and 0 < slope.memory < 1
    x, means = AT.reshape(BLOCKS, -1).mean(1), y.reshape(BLOCKS, -1).mean(1)
    between = slope.memory ** np.abs(np.subtract.outer(np.arange(BLOCKS), np.arange(BLOCKS)))
    fit = sm.GLS(means, sm.add_constant(x), sigma=between).fit()
    assert slope.value == pytest.approx(fit.params[1], rel=0.02)  # whose correlation is one turn older
    assert slope.half == pytest.approx(fit.bse[1] * 2.11, rel=0.02)  # t of 17 degrees of freedom


def test_an_exact_line_and_too_little() -> None:
    slope = slope_of([(AT, 3 * AT)])
    assert slope is not None and slope.value == pytest.approx(3) and slope.half == 0 and slope.motion == "grows"
    still = slope_of([(AT, np.full(SAMPLES, 4096.0))])
    assert still is not None and still.value == 0 and still.motion == "steady"
    assert slope_of([]) is None and slope_of([(AT[:5], AT[:5])]) is None


def test_random_walks_are_said_to_wander() -> None:
    random = np.random.default_rng(5)
    slopes = [slope_of([(AT, np.cumsum(random.standard_normal(SAMPLES)))]) for _ in range(40)]
    assert sum(slope is not None and slope.wanders for slope in slopes) >= 20
    still = [slope_of([(AT, random.standard_normal(SAMPLES))]) for _ in range(40)]
    assert not any(slope is not None and slope.wanders for slope in still)


def test_two_samples_at_a_standstill_count_once() -> None:
    at = np.repeat(np.arange(12.0), 2)
    slope = slope_of([(at, 2 * at + np.random.default_rng(1).normal(0, 0.1, 24))])
    assert slope is not None and slope.value == pytest.approx(2, abs=0.1) and np.isfinite(slope.half)


# ------------------------------------------------------------------------------------------------ what is said of a server


def noted(rss: np.ndarray, seconds: float = 1.0) -> Noted:
    samples = [Sample(1, seconds * n, 1e9 + seconds * n, int(value), int(value), int(value), 1, 0.0) for n, value in enumerate(rss)]
    return Noted("it", [], samples, [])


def test_the_warm_up_is_left_out() -> None:
    rss = np.full(1000, 1e8) + np.random.default_rng(1).normal(0, 1e4, 1000)
    rss[:190] -= 4e7
    answer = answer_of(noted(rss), 100.0, "")
    assert answer.rss is not None and answer.rss.motion == "steady"
    assert [round(hour.rss or 0, -7) for hour in answer.hours] == [6e7, 6e7, *[1e8] * 8]  # the second row has both


def test_a_bend_is_seen() -> None:
    rss = 1e8 + np.minimum(np.arange(1000), 600) * 1e4 + np.random.default_rng(1).normal(0, 1e4, 1000)
    assert answer_of(noted(rss), 100.0, "").bends
    assert not answer_of(noted(1e8 + np.arange(1000) * 1e4 + np.random.default_rng(1).normal(0, 1e4, 1000)), 100.0, "").bends


@pytest.mark.parametrize("stays", [0.0, 2e7])
def test_spikes_and_what_stays_of_them(stays: float) -> None:
    rss = np.full(1000, 1e8) + np.random.default_rng(1).normal(0, 1e5, 1000)
    rss[500:510] += 5e7
    rss[510:] += stays
    [spike] = spikes_of(noted(rss).samples)
    assert 498 <= spike.at <= 502 and 3e7 - stays < spike.height < 6e7
    assert spike.stays == pytest.approx(stays, abs=4e6 + stays * 0.2)


def test_passes_give_rate_and_latency() -> None:
    server = noted(np.full(100, 1e8))
    server.passes += [Pass(1, n, n + 1.0, {"request_rate": 50.0, "latency_p99": 0.01 + 0.0001 * n}) for n in range(100)]
    answer = answer_of(server, 10.0, "latency_p99")
    assert answer.rate is not None and answer.rate.motion == "steady"
    assert answer.latency is not None and answer.latency.value == pytest.approx(0.0001)
    assert answer.hours[3].rate == 50 and answer.hours[3].latency == pytest.approx(0.01345, abs=1e-4)


def test_growth_of_live_blocks_is_told_from_growth_beside_them() -> None:
    at = np.arange(1000.0)
    error = np.random.default_rng(1).normal(0, 1e4, 1000)
    leak = answer_of(noted(1e8 + 1e5 * at + error), 100.0, "", {1: Live(5e7 + 1e5 * at)})
    assert leak.live and leak.held and leak.live.motion == "grows" and leak.held.motion == "steady"
    fragments = answer_of(noted(1e8 + 1e5 * at + error), 100.0, "", {1: Live(np.full(1000, 5e7))})
    assert fragments.live and fragments.held and fragments.live.motion == "steady" and fragments.held.motion == "grows"


def test_the_error_of_a_sampled_leak_is_in_its_interval() -> None:
    """A leak of 1 KiB blocks, each a sample with probability 1/64: as the profiler sees it."""
    random, at = np.random.default_rng(7), np.arange(400.0)
    hits = 0
    for _ in range(60):
        seen = np.cumsum(random.binomial(20, 1 / 64, 400)) * 65536.0
        answer = answer_of(noted(2e4 * 1.024 * at + 1e8), 100.0, "", {1: Live(seen, 65536.0)})
        assert answer.live
        hits += abs(answer.live.value - 20480) <= answer.live.half
    assert hits >= 53


# ------------------------------------------------------------------------------------------------------ the measured table


def ways() -> dict[str, Callable[[np.ndarray], tuple[float, float]]]:
    """(slope, half-width) of one curve: as here, and in the two ways that are usual."""

    def ours(y: np.ndarray) -> tuple[float, float]:
        slope = slope_of([(AT, y)])
        assert slope is not None
        return slope.value, slope.half

    def newey_west(y: np.ndarray) -> tuple[float, float]:
        fit = sm.OLS(y, sm.add_constant(AT)).fit(cov_type="HAC", cov_kwds={"maxlags": round(4 * (SAMPLES / 100) ** (2 / 9))})
        return fit.params[1], 1.96 * fit.bse[1]

    def block_means(y: np.ndarray) -> tuple[float, float]:
        fit = sm.OLS(y.reshape(BLOCKS, -1).mean(1), sm.add_constant(AT.reshape(BLOCKS, -1).mean(1))).fit()
        return fit.params[1], stats.t.ppf(0.975, BLOCKS - 2) * fit.bse[1]

    return {"as here": ours, "block means alone": block_means, "Newey and West": newey_west}


@pytest.mark.on_request
def test_how_often_intervals_hold() -> None:
    """Prints the rows of the table in docs/measured/hours.md, 1,000 curves each."""
    random = np.random.default_rng(36)
    curves: dict[str, Callable[[], np.ndarray]] = {
        "independent": lambda: alike(random, 0.0),
        **{f"alike over {share:.0%} of the run": (lambda share=share: alike(random, share)) for share in (0.01, 0.03, 0.1, 0.3)},
        "a random walk": lambda: np.cumsum(random.standard_normal(SAMPLES)),
        "a saw of seven teeth": lambda: (7 * AT / AT[-1] + random.random()) % 1,
        "one step": lambda: (AT / AT[-1] > random.random()) + 0.05 * random.standard_normal(SAMPLES),
    }
    print("\n| errors | " + " | ".join(ways()) + " |")
    held: dict[tuple[str, str], float] = {}
    for name, curve in curves.items():
        hits = dict.fromkeys(ways(), 0)
        for _ in range(1000):
            y = 5 + TRUE * AT + curve()
            for way, fit in ways().items():
                value, half = fit(y)
                hits[way] += abs(value - TRUE) <= half
        held |= {(name, way): count / 10 for way, count in hits.items()}
        print(f"| {name} | " + " | ".join(f"{count / 10:.1f} %" for count in hits.values()) + " |")
    assert held["alike over 10% of the run", "as here"] > 90 > held["alike over 1% of the run", "Newey and West"]

# SPDX-License-Identifier: Apache-2.0
"""Do intervals of capacities, and of their ratios, hold the truth as often as they say? Searches on servers that are known.

HEAPYARD_SEARCHES: how many of each kind the long form on request makes, 200 unless said otherwise.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from capacity_model import P99, Curve, MemoryJournal, Waits, queue, search_for, step

from heapyard.design import capacity_rates
from heapyard.execute.capacity import search
from heapyard.stats.capacity import capacities_of

KINDS: dict[str, Callable[[], dict[str, object]]] = {
    "queue": lambda: {"curve": queue(0.8)},
    "noisy queue": lambda: {"curve": queue(0.8), "noise": 0.2, "scatter": 0.05},
    "full queue": lambda: {"curve": queue(0.95), "noise": 0.1},
    "flat queue": lambda: {"curve": queue(0.4), "noise": 0.1},
    "quiet": lambda: {"curve": queue(0.8), "noise": 0.002, "scatter": 0.002},
    "step": lambda: {"curve": step},
    "accidents": lambda: {"curve": queue(0.8), "lapse": 0.03},
    "drift": lambda: {"curve": queue(0.8), "drift": 0.002},
}
LEAST = 0.93
SEARCHES = int(os.environ.get("HEAPYARD_SEARCHES", "200"))


def width(seed: int, folder: Path, curve: Curve, **given: object) -> float:
    """Half-width of the baseline's interval after twelve blocks, on the log scale."""
    launch = Waits({"glibc": 2000.0, "swift": 2600.0}, curve=curve, seed=seed, **given)  # type: ignore[arg-type]
    what = search_for(precision=1e-9, max_blocks=12)
    journal = MemoryJournal(what)
    search(what, journal, launch, scratch=folder)  # type: ignore[arg-type]
    rate = capacities_of(what, journal.trials()).rows[0].rate
    assert rate is not None
    return math.log(rate.high / rate.low) / 2


@pytest.mark.on_request
def test_latencies_tell_more_than_yes_and_no_and_two_sides_more_than_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def yes_or_no(rate: float, capacity: float) -> float:
        return step(0.0, 1.0) if queue(0.8)(rate, capacity) <= P99.bound else step(1.0, 0.0)

    searches = range(max(SEARCHES // 4, 5))
    found = {"as it is": [width(seed, tmp_path, queue(0.8)) for seed in searches],
             "yes and no": [width(seed, tmp_path, yes_or_no, noise=0.0) for seed in searches],
             "a step": [width(seed, tmp_path, step) for seed in searches]}
    monkeypatch.setattr(capacity_rates, "SIDES", (0.5, 0.5))
    found["a step, tried at the median"] = [width(seed, tmp_path, step) for seed in searches]
    middle = {name: median(widths) for name, widths in found.items()}
    print("; ".join(f"{name}: ±{100 * math.expm1(one):.1f} %" for name, one in middle.items()))
    assert middle["as it is"] < middle["yes and no"] and middle["a step"] < middle["a step, tried at the median"]


def hits(kind: str, searches: int, folder: Path) -> tuple[list[bool], list[bool], list[float]]:
    """Of so many searches: did the intervals of capacities hold the truth, did those of the ratios, and how wide were the
    former, as half-widths on the log scale? A machine that drifts has no one capacity, and only ratios are asked for."""
    of_rates, of_ratios, widths = list[bool](), list[bool](), list[float]()
    for seed in range(searches):
        draw = random.Random(seed)
        base, ratio = math.exp(draw.uniform(math.log(300), math.log(30_000))), math.exp(draw.uniform(-0.3, 0.3))
        launch = Waits({"glibc": base, "swift": base * ratio}, seed=seed, **KINDS[kind]())  # type: ignore[arg-type]
        what = search_for(seed=seed)
        journal = MemoryJournal(what)
        search(what, journal, launch, scratch=folder)  # type: ignore[arg-type]
        found = capacities_of(what, journal.trials())
        for row in found.rows:
            assert row.rate is not None
            widths.append(math.log(row.rate.high / row.rate.low) / 2)
            if kind != "drift":
                of_rates.append(row.rate.low <= launch.capacity[row.treatment] <= row.rate.high)
            if row.ratio is not None:
                of_ratios.append(row.ratio.low <= ratio <= row.ratio.high)
        assert found.control is not None and found.control.ratio is not None
        of_ratios.append(found.control.ratio.low <= 1 <= found.control.ratio.high)
    return of_rates, of_ratios, widths


def test_a_few_searches_hold_the_truth(tmp_path: Path) -> None:
    of_rates, of_ratios, _ = hits("quiet", 4, tmp_path)
    assert sum(of_rates) >= 7 and sum(of_ratios) >= 7


@pytest.mark.on_request
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_the_truth_as_often_as_they_say(kind: str, tmp_path: Path) -> None:
    of_rates, of_ratios, widths = hits(kind, SEARCHES, tmp_path)
    rates = f"{sum(of_rates)} of {len(of_rates)} capacities, " if of_rates else ""
    print(f"{kind}: {rates}{sum(of_ratios)} of {len(of_ratios)} ratios hold the truth; half-width "
          f"{100 * math.expm1(sorted(widths)[len(widths) // 2]):.1f} %")
    assert not of_rates or sum(of_rates) >= LEAST * len(of_rates)
    assert sum(of_ratios) >= LEAST * len(of_ratios)

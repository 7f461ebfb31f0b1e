# SPDX-License-Identifier: Apache-2.0
"""Headlines of studies: levels are fixed, an effect per level where it depends on the level, a mean where it does not."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace

import pytest
from simulated import simulate

from heapyard.model.analysis import Analysis, Interval
from heapyard.model.observations import Observation, Observations
from heapyard.model.preference import Preference
from heapyard.report.agreement import ranks_and_means, variance_and_verdict
from heapyard.report.choice import dominated
from heapyard.report.effect_words import change_and_half, effect, reach, span
from heapyard.report.level_tables import level_tables
from heapyard.report.verdict import answered, verdict
from heapyard.stats.analyse import analyse

LEVELS = ("1", "2", "4", "8")


def study(
    effects: dict[tuple[str, str], float], *, memory: dict[tuple[str, str], float] | None = None, sizes: tuple[str, ...] = ("8",),
    rounds: int = 6, noise: float = 0.02, levels: tuple[str, ...] = LEVELS, seed: int = 1,
) -> Analysis:  # fmt: skip
    """A mutator over threads (and sizes): ratio of (treatment, threads) to the baseline in time, and in memory."""
    dice, rows, held = random.Random(seed), [], {}
    treatments = ("base", *dict.fromkeys(t for t, _ in effects))
    trial = 0
    for round_ in range(rounds):
        for n, (level, size) in enumerate((x, s) for x in levels for s in sizes):
            workload = f"acdc threads={level} size={size}"
            held[workload] = {"program": "acdc", "threads": level, **({"size": size} if len(sizes) > 1 else {})}
            for t in (*treatments, "control"):
                trial += 1
                for metric, known in (("wall", effects), ("peak_rss", memory or {})):
                    value = known.get((t, level), 1.0) * math.exp(dice.gauss(0, noise))
                    rows.append(
                        Observation(workload, t, round_ * 100 + n, metric, value, trial, 0, float(trial), round=round_)
                    )
    settings = replace(simulate(1, 1, 1)[1].observations.settings, baseline="base")
    return analyse(Observations(tuple(held), treatments, "base", "control", tuple(rows), (), settings, levels=held))


GROWING = {("fast", "1"): 1.0, ("fast", "2"): 0.33, ("fast", "4"): 0.2, ("fast", "8"): 0.125}


def test_an_interaction_is_told_level_by_level() -> None:
    found = study(GROWING, noise=0.005, rounds=8)
    by = found.level_effects("wall")
    assert by is not None and by.factor == "threads" and by.depends == ("fast",)
    said = verdict(found)
    assert said.startswith("fast against base: equal with threads 1, 3 to 8 times faster with threads 2, 4 and 8"), said
    assert "undecided: " not in said and "Another program" not in said


def test_the_mean_stands_where_it_means_something() -> None:
    found = study({("fast", x): 0.8 for x in LEVELS})
    assert not found.level_effects("wall").depends
    assert verdict(found).startswith("fast: 19.7 %") and "less time than base on these 4 workloads" in verdict(found)


def test_levels_are_no_sample() -> None:
    """The interval of the mean does not widen as levels disagree, and no next level is predicted."""
    wide, narrow = study(GROWING), study({("fast", x): 0.3 for x in LEVELS})
    halves = [math.log(c.interval.high / c.interval.low) for f in (wide, narrow) for c in f.over_all("wall").comparisons]
    assert halves[0] == pytest.approx(halves[1], rel=1e-9)
    assert all(o.next_program == () for o in wide.overall) and wide.rankings == ()


def test_the_factor_that_moves_the_effects_is_found() -> None:
    found = study(GROWING, sizes=("8", "64", "512"), levels=("1", "8"))
    by = found.level_effects("wall")
    assert by is not None and by.factor == "threads" and by.levels == ("1", "8")
    assert by.of("fast")[1].least <= by.of("fast")[1].interval.ratio <= by.of("fast")[1].most


def test_better_at_one_level_and_worse_at_another_is_not_out() -> None:
    found = study({("mixed", "1"): 1.5, ("mixed", "2"): 1.2, ("mixed", "4"): 0.7, ("mixed", "8"): 0.5})
    assert dominated(found) == []
    said = verdict(found)
    assert "more time with threads 1 and 2" in said and "with threads 4 and 8" in said, said
    worse = study({("lost", x): r for x, r in zip(LEVELS, (1.2, 1.5, 1.9, 3.0), strict=True)})
    assert [lost.treatment for lost in dominated(worse)] == ["lost"]
    assert verdict(worse).startswith("No allocator is shown to be better than base in time at any level of threads; lost loses")


def test_the_mean_of_one_that_does_not_depend_stands_beside_others_that_do() -> None:
    odd = {("odd", x): r for x, r in zip(LEVELS, (1.0, 1.2, 1.5, 2.0), strict=True)}
    found = study({("even", x): 0.5 for x in LEVELS} | odd)
    assert found.level_effects("wall").depends == ("odd",)
    assert verdict(found).startswith("even: ") and "on these 4 workloads" in verdict(found)


def test_memory_that_depends_on_the_level_is_the_price_by_level() -> None:
    found = study({("fast", x): 0.8 for x in LEVELS}, memory={("fast", "4"): 1.3, ("fast", "8"): 2.0})
    said = verdict(found)
    assert said.startswith("fast: ") and "; memory: " in said and "with threads 4 and 8" in said, said
    by_memory = answered(found, Preference("memory")).headline
    assert by_memory.startswith("No allocator is shown to be better than base in memory at any level of threads")


def test_equal_levels_make_no_interaction() -> None:
    """Family-wise: ties at every level are said to depend on the level in at most one study of twenty."""
    alarms = sum(bool(study({("tie", x): 1.0 for x in LEVELS}, seed=s, rounds=4).level_effects("wall").depends) for s in range(40))
    assert alarms <= 5


def test_tables_of_levels_say_whether_a_mean_hides_something() -> None:
    time, memory = level_tables(study(GROWING))
    assert "no mean stands for it" in time.note and "No effect is shown to depend" in memory.note
    assert [len(effects) for _, effects in time.rows] == [4]


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ([0.33, 0.125], "3 to 8 times faster"), ([0.9], "10 % less time"), ([0.92, 0.88], "8.0 % to 12 % less time"),
        ([2.1, 3.0], "2.1 to 3 times slower"), ([1.05], "5.0 % more time"),
    ],
)  # fmt: skip
def test_spans_in_words(ratios: list[float], words: str) -> None:
    assert span(ratios, "wall") == words


def test_effects_in_words() -> None:
    assert effect(Interval(0.25, 0.2, 0.3125), "wall") == "4 (3.2 to 5) times faster"
    assert effect(Interval(2.5, 2.4, 2.6), "peak_rss") == "2.5 (2.4 to 2.6) times the memory"
    assert reach(Interval(0.9, 0.68, 1.23)) == "from 32 % less to 23 % more"
    assert reach(Interval(0.9, 0.85, 0.95)) == "from 5.0 % to 15 % less"
    assert reach(Interval(1.4, 0.9, 3.5)) == "from 10 % less to 3.5 times as much"
    assert change_and_half(Interval(0.915, 0.912, 0.918)) == "-8.5 % ±0.3" and change_and_half(Interval(2, 0, math.inf)) == "x 2.00"


def test_ranks_and_variance_agree_with_the_verdict_or_say_why_not() -> None:
    ranked, _ = simulate(3, 12, 8, ratios={"jemalloc": (0.9, 1.0), "mimalloc": (1.1, 1.0), "tcmalloc": (0.995, 1.0)})
    assert ranked.rankings and "On wall time this" in ranks_and_means(ranked)
    assert re.search(r"On wall time this (agrees with the verdict|sets tcmalloc apart too: it takes)", ranks_and_means(ranked))
    said = variance_and_verdict(study(GROWING, noise=0.005, rounds=8))
    assert "On wall time the effect depends on threads for fast: a mean over all cells hides it." in said
    assert ranks_and_means(study(GROWING)) == ""
    tiny = study({("fast", x): 0.99 for x in LEVELS}, noise=0.001, rounds=8)
    assert "sets fast apart too" in variance_and_verdict(tiny) and "knows no margin" in variance_and_verdict(tiny)

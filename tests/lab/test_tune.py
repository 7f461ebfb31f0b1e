# SPDX-License-Identifier: Apache-2.0
"""The search over settings: its designs, its race, what it finds where the truth is known, and what it does not claim."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import numpy as np
import pytest
from simulated_tuning import CONFIRMED, MARGINS, Machine, Phases, Search, Truth, grid_best, search, space_of
from test_experiment_loop import resume, run
from yard import FakeLaunch, experiment

from heapyard.catalog.allocators import installed_allocators
from heapyard.catalog.settings import spaces_of, tunable_names
from heapyard.design.racing import beaten
from heapyard.design.screening import screening
from heapyard.model.errors import UsageError
from heapyard.model.experiment import Settings
from heapyard.model.journal import SETTLED
from heapyard.model.metrics import define, own_metric
from heapyard.model.preference import BY_TIME, Preference
from heapyard.model.tuning import Choice, Space
from heapyard.model.switching import paste_lines
from heapyard.stats.tuning.candidates import Measured, candidates
from heapyard.report.choice import choose
from heapyard.report.setting_choice import choose_setting
from heapyard.stats.tuning.confirming import confirm
from heapyard.stats.tuning.effects import main_effects
from heapyard.stats.tuning.responses import Response

SPACE = space_of(4, 3, 3, 2, 2, 2)  # 288 combinations
CLOSE = 0.0101  # ln ratio: as good as the best of the grid, one per cent and rounding
GRID_BLOCKS = 8  # of an exhaustive grid that is as precise as the confirmation
TIMES = [(0, -0.01, -0.04, 0.03), (0, -0.03, 0.02), (0, 0.01, -0.02), (0, -0.02), (0, 0), (0, 0.03)]
MEMORIES = [(0, 0.1, 0.2, -0.1), (0, 0, 0), (0, 0.05, -0.05), (0, 0), (0, 0.1), (0, 0)]


def additive(choice: Choice) -> tuple[float, float]:
    return sum(of[i] for of, i in zip(TIMES, choice, strict=True)), sum(of[i] for of, i in zip(MEMORIES, choice, strict=True))


def together(choice: Choice) -> tuple[float, float]:
    """Two settings that gain only as a pair beyond what each gives."""
    time, memory = additive(choice)
    return time - 0.06 * (choice[3] == choice[4] == 1), memory


def spoiling(choice: Choice) -> tuple[float, float]:
    """The two best levels spoil each other. All take the same memory: else the race may rightly prefer less of it."""
    return additive(choice)[0] + 0.08 * (choice[:2] == (2, 1)), 0.0


def nothing(choice: Choice) -> tuple[float, float]:
    return 0.0, 0.0


def searches(truth: Truth, count: int, space: Space = SPACE, **how: float) -> list[Search]:
    return [search(np.random.default_rng(seed), space, truth, **how) for seed in range(count)]


def behind_the_best(found: Search, truth: Truth) -> float:
    """ln ratio of time between what was found and the best of the whole grid."""
    return truth(found.best or SPACE.default)[0] - truth(grid_best(SPACE, truth))[0]


# What is found


@pytest.mark.parametrize("truth", [additive, together, spoiling])
def test_the_best_of_the_grid_is_found_in_a_fifth_of_its_trials(truth: Truth) -> None:
    for found in searches(truth, 5):
        assert behind_the_best(found, truth) <= CLOSE
        assert found.trials <= SPACE.combinations * GRID_BLOCKS / 5
        assert found.confirmed is not None and found.confirmed.cells[0].blocks == CONFIRMED


@pytest.mark.on_request
def test_many_searches_find_what_is_there() -> None:
    """On request, two minutes: rates, on a quiet machine and on one whose trials scatter by 5 %."""
    noisy = {"noise": 0.05, "screened": 9, "raced": 8, "confirmed": 30}
    for truth, how, share in ((additive, {}, 0.98), (together, {}, 0.98), (spoiling, {}, 0.9), (additive, noisy, 0.8)):
        found = [behind_the_best(one, truth) for one in searches(truth, 200, **how)]
        print(truth.__name__, how, np.mean([one <= CLOSE for one in found]), max(found))
        assert np.mean([one <= CLOSE for one in found]) >= share
        assert all(one < -truth(grid_best(SPACE, truth))[0] for one in found), "worse than the default"


def claims(count: int) -> int:
    return sum(one.best is not None for one in searches(nothing, count))


def test_settings_that_do_nothing_are_not_claimed_to() -> None:
    """At a rate of 1 in 20, more than 6 of 40 come once in 100 such tests; the seeds are fixed."""
    assert claims(40) <= 5


@pytest.mark.on_request
def test_false_claims_keep_their_rate() -> None:
    count = 2000
    found = claims(count)
    print(f"{found} of {count} searches claim a gain that is not there")
    assert found / count < 0.05


def test_effects_are_those_that_were_built_in() -> None:
    covered = []
    for found in searches(additive, 8):
        for effect in found.effects:
            place, level = int(effect.setting[1:]), int(effect.level)
            truth = (TIMES if effect.metric == "wall" else MEMORIES)[place][level]
            covered.append(effect.interval.low <= np.exp(truth) <= effect.interval.high)
    assert len(covered) == 8 * 2 * 10 and np.mean(covered) > 0.88


def test_of_two_gains_that_fresh_blocks_cannot_tell_apart_all_trials_name_the_better() -> None:
    """The worse one takes less memory, so that fresh blocks alone would name it."""

    def truth(choice: Choice) -> tuple[float, float]:
        return (0.0, -0.15, -0.10)[choice[0]], (0.0, 0.09, 0.03)[choice[0]]

    space, rng = space_of(3), np.random.default_rng(1)
    machine, phases = Machine(rng, space, truth, 0.08), Phases(space)
    choices = [(0,), (1,), (2,)]
    phases.add(machine, choices, machine.blocks(choices, 100))
    named = []
    for _ in range(10):
        fresh = confirm(machine.seen(choices, machine.blocks(choices, 20)), space, choices, allocators=1)
        alone = choose(fresh)
        if alone is not None:
            best = choose_setting(fresh, space, choices[1:], BY_TIME, (phases.time, phases.memory), MARGINS)
            named.append((alone, best))
    assert named and {best for _, best in named} <= {(1,), (2,)} and sum(best == (1,) for _, best in named) >= len(named) - 2
    assert any(alone == space.label((2,)) for alone, _ in named), "the look would see it if it were otherwise"
    slim = Preference("time", memory_limit=0.05)
    assert choose_setting(fresh, space, choices[1:], slim, (phases.time, phases.memory), MARGINS) in {(2,), None}


def test_a_setting_that_adds_nothing_is_not_named() -> None:
    space, rng = space_of(2, 2), np.random.default_rng(3)
    machine, phases = Machine(rng, space, lambda choice: (-0.15 * choice[0], 0.0), 0.05), Phases(space)
    choices = [(0, 0), (1, 1), (1, 0)]
    phases.add(machine, choices, machine.blocks(choices, 50))
    named, alone = [], []
    for _ in range(10):
        fresh = confirm(machine.seen(choices, machine.blocks(choices, 20)), space, choices, allocators=1)
        alone.append(choose(fresh))
        named.append(choose_setting(fresh, space, choices[1:], BY_TIME, (phases.time, phases.memory), MARGINS))
    assert named.count((1, 0)) >= 9, named
    assert space.label((1, 1)) in alone, "the look would see it if it were otherwise"


# Designs


def spaces() -> list[Space]:
    here = [a for a in installed_allocators() if a.name in tunable_names()]
    return [*spaces_of(here), SPACE, space_of(2), space_of(*[2] * 11), space_of(3, 3, 3, 3)]


@pytest.mark.parametrize("space", spaces(), ids=lambda space: f"{space.allocator}-{'x'.join(map(str, space.counts))}")
def test_a_screening_keeps_main_effects_apart(space: Space) -> None:
    """Each two settings' levels come together as often as their own frequencies say: columns are orthogonal. Where an array
    repeats a combination, which is measured once, at least each effect can be told."""
    runs = screening(space.counts)
    assert runs[0] == space.default and len(set(runs)) == len(runs)
    known = main_effects(space, runs, Response("wall", np.random.default_rng(1).normal(size=(2, len(runs)))), confidence=0.95)
    assert len(known) == sum(space.counts) - len(space.counts) and all(e.interval.low > 0 for e in known)
    if len(runs) not in {4, 9, 12, 16, 18, 24, 25, 27, 32}:
        return
    for one, other in itertools.combinations(range(len(space.settings)), 2):
        for levels in itertools.product(range(space.counts[one]), range(space.counts[other])):
            often = sum((run[one], run[other]) == levels for run in runs)
            alone = sum(run[one] == levels[0] for run in runs) * sum(run[other] == levels[1] for run in runs)
            assert often * len(runs) == alone
    for place, count in enumerate(space.counts):
        assert {run[place] for run in runs} == set(range(count))


def test_few_combinations_are_all_measured() -> None:
    assert screening((2, 3)) == list(itertools.product(range(2), range(3)))


def test_too_many_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="no orthogonal array holds 40 settings"):
        screening((4,) * 40)


def test_one_block_gives_effects_without_intervals() -> None:
    space = space_of(*[2] * 7)
    runs = screening(space.counts)
    effects = main_effects(space, runs, Response("wall", np.zeros((1, len(runs)))), confidence=0.95)
    assert len(runs) == 8 and len(effects) == 7
    assert all(e.interval.ratio == 1 and e.interval.low == 0 for e in effects)


# The race


def columns(rng: np.random.Generator, effects: list[float], blocks: int, noise: float) -> np.ndarray:
    return np.array(effects) + rng.normal(0, noise, (blocks, len(effects))) + rng.normal(0, 0.1, (blocks, 1))


def test_only_what_is_worse_in_one_response_and_no_better_in_the_other_leaves() -> None:
    rng = np.random.default_rng(1)
    time = columns(rng, [0.0, -0.2, 0.2, 0.2, -0.2], 6, 0.01)
    memory = columns(rng, [0.0, 0.3, -0.3, 0.0, 0.6], 6, 0.01)
    assert beaten([time, memory], MARGINS) == [False, False, False, True, True]


def test_what_is_the_same_as_the_default_leaves_and_the_default_never_does() -> None:
    rng = np.random.default_rng(1)
    same = [columns(rng, [0.0, 0.0, -0.2], 8, 0.002) for _ in range(2)]
    assert beaten(same, MARGINS) == [False, True, False]
    assert beaten([y[:1] for y in same], MARGINS) == beaten([y[:0] for y in same], MARGINS) == [False] * 3


def race(**more: object) -> object:
    labels = ("glibc", "swift", "slim")
    return experiment(("swift", "slim"), ("one",), pilot_blocks=3, max_blocks=9, looks=(3, 5, 8), race=(labels,),
                      memory_metric="peak_rss", **more)


def test_the_loop_lets_the_beaten_go_and_ends_where_one_is_left(tmp_path: Path) -> None:
    record = run(tmp_path, race(), FakeLaunch(ratios={"swift": 0.8, "slim": 0.9}, noise=0.005))
    rounds = {t.treatment: t.round for t in record.trials if t.stage != "warmup"}
    assert rounds["slim"] == rounds["swift"] == 2 and record.status == "finished"
    assert [e.text for e in record.events if e.kind == SETTLED] == ["after 3 blocks 1 of 2 choices are beaten"]


def test_undecided_choices_run_to_the_last_round(tmp_path: Path) -> None:
    record = run(tmp_path, race(), FakeLaunch(ratios={"swift": 0.8, "slim": 0.802}, noise=0.005))
    assert max(t.round for t in record.trials if t.treatment == "slim") == 8


def test_an_interrupted_race_comes_to_the_same_end(tmp_path: Path) -> None:
    def launch(stop_after: int | None = None) -> FakeLaunch:
        return FakeLaunch(ratios={"swift": 0.8, "slim": 0.9}, noise=1e-6, stop_after=stop_after)

    cut = run(tmp_path, race(), launch(6), stop=threading.Event())
    assert cut.status == "interrupted"
    whole = resume(cut.path, launch())
    assert whole.status == "finished" and max(t.round for t in whole.trials if t.treatment == "swift") == 2


def test_a_choice_that_crashes_leaves(tmp_path: Path) -> None:
    launch = FakeLaunch(ratios={"swift": 0.8}, noise=0.005, faults={("one", "slim"): {}})
    record = run(tmp_path, race(), launch)
    assert record.status == "finished" and sum(t.treatment == "slim" for t in record.trials) == 2


def test_settings_of_older_experiments_lack_the_race() -> None:
    from heapyard.store.codec import decode, encode

    assert decode(Settings, encode(Settings()).replace('"race": [], ', "")) == Settings()


# Words


def test_lines_to_paste_are_quoted_for_each_place() -> None:
    lines = paste_lines({"A_CONF": "x:1,y:$2"})
    assert lines == [
        ("systemd", 'Environment="A_CONF=x:1,y:$2"'),
        ("Dockerfile", 'ENV A_CONF="x:1,y:\\$2"'),
        ("Kubernetes", '- {name: A_CONF, value: "x:1,y:$2"}'),
        ("shell", "export A_CONF='x:1,y:$2'"),
    ]
    assert paste_lines({"B": "50%"})[0] == ("systemd", "Environment=B=50%%")


# --- every candidate, and the front of all


def test_candidates_stand_where_the_last_phase_saw_them() -> None:
    """Of three settings one is faster, one smaller, and one worse than the default in both; one was measured twice."""
    space = space_of(2, 2)
    default, fast, small, worse = (0, 0), (1, 0), (0, 1), (1, 1)

    def measured(**ratios: tuple[list[float], list[float]]) -> tuple[Response, Response]:
        return tuple(Response(name, np.log(np.array([values[place] for values in ratios.values()]).T))
                     for place, name in enumerate(("wall", "charged")))  # type: ignore[return-value]

    first = measured(default=([1.0] * 3, [1.0] * 3), fast=([0.8] * 3, [1.2] * 3), small=([1.1] * 3, [0.9] * 3),
                     worse=([1.1] * 3, [1.1] * 3))
    second = measured(default=([2.0] * 2, [2.0] * 2), fast=([1.8, 1.8], [2.4, 2.4]))
    phases: list[Measured] = [("screening", (default, fast, small, worse), first), ("race", (default, fast), second)]
    found = {c.choice: c for c in candidates(space, phases, confidence=0.95)}
    assert list(found) == [fast, small, worse] and default not in found
    assert found[fast].phase == "race" and found[fast].blocks == 2 and found[fast].time.ratio == pytest.approx(0.9)
    assert found[small].phase == "screening" and found[small].memory.ratio == pytest.approx(0.9)
    assert [c.choice for c in found.values() if c.on_front] == [fast, small]


def test_a_candidate_that_failed_is_none_and_one_block_bounds_nothing() -> None:
    logs = np.log(np.array([[1.0, 0.9, np.nan]]))
    both = (Response("wall", logs), Response("charged", logs))
    [only] = candidates(space_of(3), [("screening", ((0,), (1,), (2,)), both)], confidence=0.95)
    assert only.choice == (1,) and only.time.low == 0 and only.time.high == np.inf


def test_more_of_what_is_better_is_ahead() -> None:
    define([own_metric("sold", "1", "higher")])
    logs = -np.log(np.array([[100.0, 120.0], [100.0, 120.0]]))  # turned as responses are: less is better
    [only] = candidates(space_of(2), [("race", ((0,), (1,)), (Response("sold", logs), Response("charged", 0 * logs)))],
                        confidence=0.95)
    assert only.on_front and only.time.ratio == pytest.approx(1.2)

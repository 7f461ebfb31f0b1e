# SPDX-License-Identifier: Apache-2.0
"""Stages and looks: what they save, and that the error rates and intervals a report promises stay as they are.

Each limit is at least three standard errors of the simulated share away from what a correct method gives.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from staged_races import AT_ONCE, MARGIN, STAGED, called, covered, mean_over, race

from heapyard.design.looks import looks_from, settled, share_of_precision
from heapyard.design.two_stage import blocks_wanted
from heapyard.stats.contrasts import Contrasts

NULL = [0.0] * 5
ONE_OF_FIVE = [0.0, 0.3, 0.3, -0.3, 0.3]  # what is easy to settle leaves early; the equal one stays alone
AT_THE_MARGIN = [MARGIN, 0.3, 0.3, -0.3, 0.3]  # "equivalent" is wrong for the first, and never more tempting
MIXED = [-0.085, -0.02, 0.0, 0.005, 0.12]


def share(held) -> float:
    return float(np.mean(held))


def races(count, effects, noise, settings=STAGED, seed=31, **options):
    rng = np.random.default_rng(seed)
    return [race(rng, effects, noise, settings, **options) for _ in range(count)]


# --- error rates of one program


@pytest.mark.parametrize(("effects", "noise"), [(NULL, 0.01), (NULL, 0.025), (ONE_OF_FIVE, 0.025)])
def test_equal_allocators_are_called_different_in_at_most_five_percent(effects, noise):
    """All comparisons of a program together; 300 programs: three standard errors are 3.8 %."""
    equal = np.asarray(effects) == 0
    assert share([(called(r, "better", "worse") & equal).any() for r in races(300, effects, noise)]) <= 0.088


def test_the_same_without_a_margin_where_only_a_proven_difference_ends_a_comparison():
    bare = replace(STAGED, margin_time=1e-9)
    assert 0.012 <= share([called(r, "better", "worse").any() for r in races(300, [0.0], 0.02, bare)]) <= 0.088


@pytest.mark.parametrize("effects", [[MARGIN], AT_THE_MARGIN])
def test_a_difference_at_the_margin_is_called_equivalent_in_one_of_twenty(effects):
    assert share([called(r, "equivalent")[0] for r in races(300, effects, 0.025)]) <= 0.088


@pytest.mark.parametrize("effects", [MIXED, [1.5 * MARGIN]])
def test_intervals_hold_the_truth_in_stages_and_the_control_is_quiet(effects):
    made = races(300, effects, 0.025)
    held = np.array([covered(r) for r in made])
    assert 0.91 <= held.mean() <= 0.98 and held.mean(axis=0).min() >= 0.875  # 0.92 less three standard errors
    assert share([r.cell.control.p_value < 0.05 for r in made]) <= 0.088


# --- the mean over programs, taken as fixed


def means(runs, effects, noises, settings=STAGED, seed=41):
    """(rejections of no difference, coverage, half-widths) of the mean over programs; `effects`: programs x treatments."""
    rng = np.random.default_rng(seed)
    effects = np.asarray(effects, dtype=float)
    truth, rejected, held, widths = effects.mean(axis=0), [], [], []
    for _ in range(runs):
        found, half = mean_over([
            race(rng, e, n, settings, programs=len(effects)) for e, n in zip(effects, noises, strict=True)
        ])
        rejected.append(np.abs(found) > half)
        held.append(np.abs(found - truth) <= half)
        widths.append(half)
    return np.array(rejected), np.array(held), np.array(widths)


NOISES = [0.01, 0.013, 0.016, 0.02, 0.025, 0.03, 0.05, 0.07]
OPPOSED = [[sign * size, 0.0, -0.01] for size in (0.03, 0.06, 0.1, 0.3) for sign in (1, -1)]  # they cancel


def test_the_mean_over_programs_keeps_its_level_and_reaches_its_precision():
    """Two treatments whose effects cancel or vanish, one that differs by 1 %; 60 runs of eight programs."""
    rejected, held, widths = means(60, OPPOSED, NOISES)
    assert share(rejected[:, :2].any(axis=1)) <= 0.22  # two tests uncorrected: 10 % and three standard errors
    assert 0.9 <= held.mean() <= 0.995
    assert np.median(widths) <= STAGED.precision * 1.1


# --- what it saves


def test_what_is_settled_is_not_measured_on():
    for effects, noise, saved in ((ONE_OF_FIVE, 0.025, 0.4), (MIXED, 0.025, 0.2), ([1.5 * MARGIN], 0.025, 0.4)):
        once = sum(r.trials for r in races(60, effects, noise, AT_ONCE))
        assert sum(r.trials for r in races(60, effects, noise)) < (1 - saved) * once


def test_most_of_what_would_be_decided_is_decided_still():
    def undecided(settings):
        return share([called(r, "undecided").mean() for r in races(100, MIXED, 0.025, settings)])

    assert undecided(STAGED) <= undecided(AT_ONCE) + 0.02


# --- large, on request


@pytest.mark.on_request
@pytest.mark.parametrize("noise", [0.01, 0.025, 0.05])
@pytest.mark.parametrize("effects", [NULL, ONE_OF_FIVE, AT_THE_MARGIN, MIXED, [0.0], [MARGIN], [1.5 * MARGIN]])
def test_error_rates_at_length(effects, noise):
    """1000 programs each. The plan without looks stands beside it: what a look adds is the difference."""
    equal, apart = np.asarray(effects) == 0, np.abs(effects) >= MARGIN - 1e-12
    rates = {}
    for name, settings in (("at once", AT_ONCE), ("staged", STAGED)):
        made = races(1000, effects, noise, settings)
        wrong = share([(called(r, "better", "worse") & equal).any() for r in made])
        same = share([(called(r, "equivalent") & apart).any() for r in made])
        held = np.array([covered(r) for r in made]).mean(axis=0)
        rates[name] = wrong, same, held, sum(r.trials for r in made)
        print(f"{name}: effects {np.round(effects, 3)}, noise {noise:.1%}: called different {wrong:.1%}, equivalent "
              f"{same:.1%}, intervals hold {held.min():.1%} to {held.max():.1%}, trials {rates[name][3] / 1000:.0f}")
    wrong, same, held, trials = rates["staged"]
    assert wrong <= max(0.05, rates["at once"][0]) + 0.021 and same <= max(0.05, rates["at once"][1]) + 0.021
    assert held.min() >= 0.92 - 0.026 and held.max() <= 0.97 + 0.016
    assert trials <= rates["at once"][3]


@pytest.mark.on_request
@pytest.mark.parametrize("kind", ["spikes", "one-sided", "two modes"])
def test_error_rates_under_other_noise(kind):
    def draw(rng, shape):
        if kind == "spikes":
            return rng.normal(0, 0.01, shape) + 0.1 * (rng.random(shape) < 0.1)
        if kind == "one-sided":
            return np.log1p(rng.lognormal(-4, 0.4, shape))
        return 0.05 * (rng.random(shape) < 1 / 3) + rng.normal(0, 0.005, shape)

    made = races(1000, ONE_OF_FIVE, 0.0, draw=draw)
    assert share([called(r, "better", "worse")[0] for r in made]) <= 0.065
    assert np.array([covered(r) for r in made]).mean() >= 0.92


@pytest.mark.on_request
def test_machine_minutes_of_a_usual_race():
    """Eight programs of 0.5 s under six allocators, noise 1 to 7 %: minutes to the end of the plan, as before and staged."""
    profile = np.random.default_rng(3).normal(0, 1, (8, 5)) * [0.1, 0.05, 0.02, 0.005, 0.15]
    minutes = {}
    for name, settings in (("at once", AT_ONCE), ("staged", STAGED)):
        rng = np.random.default_rng(2)
        trials = [sum(race(rng, e, n, settings).trials for e, n in zip(profile, NOISES, strict=True)) for _ in range(50)]
        minutes[name] = float(np.mean(trials)) * 0.5 / 60
        print(f"{name}: {minutes[name]:.1f} machine minutes")
    assert minutes["staged"] < 0.75 * minutes["at once"]


# --- the rule itself


def test_looks_grow_by_half_from_the_pilot():
    assert looks_from(6, 200) == (6, 9, 14, 21, 32, 48, 72, 108, 162)
    assert looks_from(2, 4) == (2, 3) and looks_from(10, 10) == (10,)


def test_the_share_of_a_program_is_what_the_mean_needs():
    assert share_of_precision(0.01, 16) == pytest.approx(0.04)
    assert share_of_precision(0.01, 1) == share_of_precision(0.01, 4) == pytest.approx(0.02)


def look(y, others=(1,), margin=0.02, family=1, levels=(0.001, 0.005)):
    return settled(y, others, base=0, margin=margin, family=family, levels=levels).tolist()


def test_what_is_settled():
    rng = np.random.default_rng(1)
    y = rng.normal(0, 1, (6, 4))
    y -= y.mean(axis=0) + y.mean(axis=1, keepdims=True) - y.mean()
    y *= 0.006 / np.sqrt((y**2).sum() / 15)  # noise and effects are exactly these
    y += [0, 0.1, 0, 0.012]
    assert look(y, (1, 2, 3), family=3) == [True, True, False]  # far off, alike, neither shown
    assert look(y[:1]) == [False] and look([]) == [False] and look(y, ()) == []
    broken = np.vstack([y, [np.nan, 0, 0, 0]])
    assert look(broken, (1, 2, 3), family=3) == [True, True, False]
    assert look(np.zeros((6, 3)) + [0, 0.1, 0], (1, 2)) == [True, True]  # no noise at all


def test_one_that_scatters_more_than_the_rest_is_judged_by_its_own_noise():
    rng = np.random.default_rng(2)
    y = rng.normal(0, 0.001, (6, 6))
    y[:, 1] = 0.011 + np.array([1, -1, 1, -1, 1, -1]) * 0.008  # by the noise of all it would pass
    assert look(y, (1, 2)) == [False, True]


@pytest.mark.parametrize("seed", range(40))
def test_what_a_look_settles_has_a_verdict(seed):
    """With either estimate of the noise that a report may choose."""
    rng = np.random.default_rng(seed)
    y = rng.normal(0, 0.01, (8, 6)) * rng.choice([1, 1, 1, 4], 6) + [0, 0.03, 0.06, -0.05, 0.0, 0.0]
    found = Contrasts(y, range(5), confidence=0.95).against(0, [1, 2, 3, 4])
    for contrast, yes in zip(found, look(y, (1, 2, 3, 4), family=4), strict=True):
        alike = 1 / 1.02 <= contrast.tost.low and contrast.tost.high <= 1.02
        apart = all(i.low > 1 or i.high < 1 for i in (contrast.simultaneous, contrast.pair))
        assert alike or apart or not yes


def test_a_program_gives_its_share_before_anything_is_released():
    noisy = race(np.random.default_rng(3), [0.9, 0.9], 0.07)
    pilot = np.random.default_rng(3).normal(0, 0.07, (6, 4))
    assert min(c.blocks for c in noisy.cell.comparisons) >= 0.5 * blocks_wanted(pilot, precision=share_of_precision(0.01, 8))

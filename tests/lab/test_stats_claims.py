"""Claims and curves on simulated studies whose truth is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heapyard.model.claim import Claim, Judgement
from heapyard.model.experiment import Settings
from heapyard.model.figure import Figure
from heapyard.model.observations import Failure, Observation, Observations
from heapyard.stats.analyse import analyse
from heapyard.stats.claims import judge
from heapyard.stats.curves import curves_of
from heapyard.stats.tables import tables

CONTROL = "base (A/A control)"
LEVELS = ("1", "2", "4", "8", "16")
Truth = Callable[[float, str], float]


def study(
    truth: Truth,
    *,
    treatments: tuple[str, ...] = ("base", "one", "two"),
    levels: tuple[str, ...] = LEVELS,
    rounds: int = 8,
    noise: float = 0.01,
    seed: int = 0,
    metric: str = "wall",
    **fields: object,
) -> Observations:
    """A mutator at every level, in rounds: truth(level, treatment) times a round's drift times log-normal noise."""
    draw = random.Random(seed)
    rows = []
    for number in range(rounds):
        drift = draw.gauss(0, 5 * noise)
        for place, level in enumerate(levels):
            for label in (*treatments, CONTROL):
                value = truth(float(level), "base" if label == CONTROL else label)
                value *= math.exp(drift + draw.gauss(0, noise))
                block = number * len(levels) + place
                rows.append(Observation(f"m x={level}", label, block, metric, value, round=number))
    return Observations(
        workloads=tuple(f"m x={level}" for level in levels),
        treatments=treatments,
        baseline="base",
        control=CONTROL,
        rows=tuple(rows),
        settings=Settings(baseline="base"),
        levels={f"m x={level}": {"x": level, "threads": level} for level in levels},
        **fields,  # type: ignore[arg-type]
    )


def verdict(claim: Claim, truth: Truth, **how: object) -> Judgement:
    return judge(claim, study(truth, **how))  # type: ignore[arg-type]


SPEEDS = {"base": 1.0, "one": 0.8, "two": 1.25}


def by_speed(level: float, treatment: str) -> float:
    return SPEEDS[treatment] * level


@pytest.mark.parametrize(
    "claim, expected",
    [
        (Claim("", "faster_than", metric="wall", treatments=("one",)), "holds"),
        (Claim("", "faster_than", metric="wall", treatments=("one",), than=("base", "two")), "holds"),
        (Claim("", "faster_than", metric="wall", treatments=("two",)), "does not hold"),
        (Claim("", "faster_than", metric="wall"), "does not hold"),  # of both, one is not
        (Claim("", "faster_than", metric="wall", treatments=(CONTROL,)), "cannot tell"),  # equal is not faster
        (Claim("", "within", metric="wall", treatments=("one",), bounds=(0.7, 0.9)), "holds"),
        (Claim("", "within", metric="wall", treatments=("two",), bounds=(0.7, 0.9)), "does not hold"),
        (Claim("", "within", metric="wall", treatments=("one",), bounds=(0.8, 1.0)), "cannot tell"),  # on the edge
        (Claim("", "ranks", metric="wall", treatments=("one",)), "holds"),
        (Claim("", "ranks", metric="wall", treatments=("base",), places=2), "holds"),
        (Claim("", "ranks", metric="wall", treatments=("base",), than=("two",)), "holds"),
        (Claim("", "ranks", metric="wall", treatments=("two",)), "does not hold"),
        (Claim("", "grows_like", metric="wall", over="x", form="linear"), "holds"),
        (Claim("", "grows_like", metric="wall", over="x", form="quadratic"), "does not hold"),
        (Claim("", "grows_like", metric="wall", over="x", form="constant"), "does not hold"),
        (Claim("", "monotone", metric="wall", over="x", direction="rises"), "holds"),
        (Claim("", "monotone", metric="wall", over="x", direction="falls"), "does not hold"),
        (Claim("", "flat_in", metric="wall", over="x", bounds=(0.5, 2.0)), "does not hold"),
        (Claim("", "told"), "cannot tell"),
        (Claim("", "faster_than", metric="wall", treatments=("llalloc",)), "cannot tell"),
        (Claim("", "faster_than", metric="moon"), "cannot tell"),
        (Claim("", "faster_than", metric="wall", at={"x": ("64",)}), "cannot tell"),
    ],
)
def test_verdicts_are_those_of_the_truth(claim: Claim, expected: str) -> None:
    found = verdict(claim, by_speed)
    assert found.verdict == expected, found.evidence
    assert found.evidence and "\n" not in found.evidence


def test_flatness_must_be_shown_not_merely_not_refuted() -> None:
    claim = Claim("", "flat_in", metric="wall", over="x", bounds=(0.9, 1.1))
    assert verdict(claim, lambda level, treatment: 1.0).verdict == "holds"
    assert verdict(claim, lambda level, treatment: 1.0, noise=0.5, rounds=3).verdict == "cannot tell"


def test_a_constant_does_not_grow_and_a_step_back_is_no_rise() -> None:
    grows = Claim("", "grows_like", metric="wall", over="x", form="linear")
    assert verdict(grows, lambda level, treatment: 1.0).verdict == "does not hold"
    rises = Claim("", "monotone", metric="wall", over="x")
    dented = verdict(rises, lambda level, treatment: level if level != 8 else 2.0)
    assert dented.verdict == "does not hold" and "4 to 8" in dented.evidence


@pytest.mark.parametrize("form", ["log", "linear", "n log n", "quadratic"])
def test_every_form_is_known_when_seen(form: str) -> None:
    shapes = {"log": lambda n: 1 + math.log(n + 1), "linear": lambda n: 3 + n, "n log n": lambda n: n * math.log(n + 1) + 1,
              "quadratic": lambda n: n * n + 5}  # fmt: skip
    claim = Claim("", "grows_like", metric="wall", over="x", form=form)  # type: ignore[arg-type]
    found = verdict(claim, lambda level, treatment: shapes[form](level), levels=("1", "2", "4", "8", "16", "32", "64"))
    assert found.verdict == "holds" and f"best by AICc: {form}" in found.evidence


def test_more_is_better_where_the_metric_says_so() -> None:
    from heapyard.model.metrics import define, own_metric

    define([own_metric("test_rate", "1/s", "higher")])
    claim = Claim("", "faster_than", metric="test_rate", treatments=("two",))
    assert verdict(claim, by_speed, metric="test_rate").verdict == "holds"
    best = Claim("", "ranks", metric="test_rate", treatments=("two",))
    assert verdict(best, by_speed, metric="test_rate").verdict == "holds"


def test_exceptions_are_named() -> None:
    claim = Claim("", "monotone", metric="wall", over="x")
    found = verdict(claim, lambda level, treatment: 1 / level if treatment == "two" else level)
    assert found.verdict == "does not hold" and found.evidence.startswith("two, wall time")
    assert "it holds for base, one" in found.evidence
    assert [part[:2] for part in found.parts] == [("base", "holds"), ("one", "holds"), ("two", "does not hold")]


def test_a_machine_too_small_cannot_tell() -> None:
    claim = Claim("", "monotone", metric="wall", over="x", processors=8)
    observations = study(by_speed, processors=2)
    assert judge(claim, observations).evidence == "needs 8 processors; this machine has 2"
    assert judge(claim, replace(observations, processors=8)).verdict == "holds"


@pytest.mark.parametrize(
    "claim",
    [
        Claim("", "faster_than", metric="wall", treatments=("one",)),
        Claim("", "ranks", metric="wall", treatments=("one",)),
        Claim("", "monotone", metric="wall", over="x", treatments=("one",)),
        Claim("", "within", metric="wall", treatments=("one",), bounds=(1.0, 2.0)),
    ],
    ids=lambda claim: claim.kind,
)
def test_where_nothing_is_to_be_found_little_is(claim: Claim) -> None:
    """Two hundred studies without any effect: at most about 5 % may be decided; 19 is beyond 99.9 %."""
    decided = sum(
        verdict(claim, lambda level, treatment: 1.0, seed=seed, levels=("1", "2", "4"), rounds=5).verdict != "cannot tell"
        for seed in range(200)
    )
    assert decided <= 19, decided


def test_curves_hold_the_truth() -> None:
    figures = (
        Figure("plain", "wall", "x"),
        Figure("relative", "wall", "x", relative=True),
        Figure("absent", "moon", "x"),
        Figure("one", "wall", "threads", at={"x": "4"}),
    )
    observations = study(by_speed, figures=figures, processors=4)
    plain, relative, absent, one = curves_of(observations, tables(observations))
    assert plain.levels == LEVELS and plain.numeric and len(plain.points) == 15
    for point in plain.points:
        truth = by_speed(float(point.level), point.treatment)
        assert point.mean.ratio == pytest.approx(truth, rel=0.1) and point.mean.low < point.mean.ratio < point.mean.high
        assert point.oversubscribed == (float(point.level) > 4) and point.blocks == 8
    for point in relative.points:
        assert point.mean.ratio == pytest.approx(SPEEDS[point.treatment], rel=0.03)
    assert not absent.points and [p.level for p in one.points] == ["4"] * 3


def test_intervals_of_curves_cover_the_truth() -> None:
    """Of 400 curves' points about 380 intervals hold the truth (the drift of a round is part of their noise)."""
    figure = (Figure("relative", "wall", "x", relative=True),)
    inside = 0
    for seed in range(200):
        observations = study(by_speed, figures=figure, seed=seed, levels=("1",), rounds=6)
        (curves,) = curves_of(observations, tables(observations))
        inside += sum(p.mean.low < SPEEDS[p.treatment] < p.mean.high for p in curves.points if p.treatment != "base")
    assert 365 <= inside <= 393, inside


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_shape_of_data_raises(data: st.DataObject) -> None:
    full = study(by_speed, rounds=data.draw(st.integers(1, 4)), levels=LEVELS[: data.draw(st.integers(1, 5))],
                 noise=data.draw(st.sampled_from([0.0, 0.01, 1.0])))  # fmt: skip
    kept = tuple(r for r in full.rows if data.draw(st.integers(0, 9)) > 0)
    kept = tuple(replace(r, value=0.0) if data.draw(st.integers(0, 19)) == 0 else r for r in kept)
    failures = (Failure(full.workloads[0], "one", 1, 2, "signal", "crash"),) if data.draw(st.booleans()) else ()
    kinds = ("faster_than", "within", "ranks", "monotone", "flat_in", "grows_like")
    claims = tuple(Claim("", k, metric="wall", over="x", bounds=(0.5, 2.0)) for k in kinds)  # type: ignore[arg-type]
    figures = (Figure("f", "wall", "x"), Figure("r", "wall", "x", relative=True))
    analysis = analyse(replace(full, rows=kept, failures=failures, claims=claims, figures=figures))
    assert len(analysis.judgements) == len(kinds) and len(analysis.curves) == 2

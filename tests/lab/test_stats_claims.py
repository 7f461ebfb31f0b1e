# SPDX-License-Identifier: Apache-2.0
"""Claims on simulated studies whose truth is known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_rounds import CONTROL, LEVELS, Truth, by_speed, study

from heapyard.model.claim import Claim, Judgement
from heapyard.model.figure import Figure
from heapyard.model.metrics import define, own_metric
from heapyard.model.observations import Failure, Observations
from heapyard.stats.analyse import analyse
from heapyard.stats.claims.judge import judge

SHAPES: dict[str, Truth] = {
    "constant": lambda n, _: 1.0,
    "log": lambda n, _: 1 + math.log(n + 1),
    "linear": lambda n, _: 3 + n,
    "n log n": lambda n, _: n * math.log(n + 1) + 1,
    "quadratic": lambda n, _: n * n + 5,
}


def verdict(claim: Claim, truth: Truth, **how: object) -> Judgement:
    return judge(claim, study(truth, **how))  # type: ignore[arg-type]


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
        (Claim("", "ranks", metric="wall", treatments=("two",), places=3), "cannot tell"),  # who is not?
        (Claim("", "ranks", metric="wall", treatments=(CONTROL,)), "cannot tell"),
        (Claim("", "grows_like", metric="wall", over="x", form="linear"), "holds"),
        (Claim("", "grows_like", metric="wall", over="x", form="quadratic"), "does not hold"),
        (Claim("", "grows_like", metric="wall", over="x", form="constant"), "does not hold"),
        (Claim("", "monotone", metric="wall", over="x", direction="rises"), "holds"),
        (Claim("", "monotone", metric="wall", over="x", direction="falls"), "does not hold"),
        (Claim("", "flat_in", metric="wall", over="x", bounds=(0.5, 2.0)), "does not hold"),
        (Claim("", "flat_in", metric="wall", over="x"), "cannot tell"),  # names no bound
        (Claim("", "monotone", metric="wall", over="moon"), "cannot tell"),
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
    assert dented.verdict == "does not hold" and "from x 4 to 8, against" in dented.evidence
    # A step back of 0.5 % is as significant with so little noise, but matters to nobody.
    assert verdict(rises, lambda level, treatment: level if level != 8 else 3.98, noise=0.0001).verdict == "holds"


def test_numbers_are_taken_in_their_order() -> None:
    backwards = tuple(reversed(LEVELS))
    assert verdict(Claim("", "monotone", metric="wall", over="x"), by_speed, levels=backwards).verdict == "holds"


def test_a_form_is_not_claimed_by_the_smallness_of_growth() -> None:
    """Every form is near a response that grows by a seventh; only its own may hold."""
    for form in ("linear", "n log n", "quadratic"):
        claim = Claim("", "grows_like", metric="wall", over="x", form=form)  # type: ignore[arg-type]
        found = verdict(claim, lambda level, treatment: 1 + 0.07 * math.log(level + 1), noise=0.002)
        assert found.verdict != "holds", (form, found.evidence)


@pytest.mark.parametrize("form", ["log", "linear", "n log n", "quadratic"])
def test_every_form_is_known_when_seen(form: str) -> None:
    claim = Claim("", "grows_like", metric="wall", over="x", form=form)  # type: ignore[arg-type]
    found = verdict(claim, SHAPES[form], levels=("1", "2", "4", "8", "16", "32", "64"))
    assert found.verdict == "holds" and f"{form} is off" in found.evidence and "best by AICc" in found.evidence


def test_growth_is_judged_by_instructions_beside_time() -> None:
    """Work of n log n whose time bends as a cache overflows: time alone would refute what the instructions show."""
    levels = ("100", "400", "1600", "6400", "25600")
    bent = study(lambda n, _: n * math.log(n + 1) * (1 if n < 1600 else 1.9), levels=levels, noise=0.01)
    exact = study(lambda n, _: n * math.log(n + 1) + 50, levels=levels, noise=0.0, metric="instructions")
    both = replace(bent, rows=(*bent.rows, *exact.rows))
    for form, expected in (("n log n", "holds"), ("quadratic", "does not hold")):
        claim = Claim("", "grows_like", metric="wall", over="x", form=form)  # type: ignore[arg-type]
        found = judge(claim, both)
        assert found.verdict == expected and "instructions: " in found.evidence and "beside it, wall time: " in found.evidence
        assert found.claim == claim
    alone = judge(Claim("", "grows_like", metric="wall", over="x", form="n log n"), bent)
    assert alone.verdict != "holds" and alone.evidence.endswith("which caches bend: instructions were not counted")


def test_growth_over_threads_and_of_memory_is_not_judged_by_instructions() -> None:
    claim = Claim("", "grows_like", metric="peak_rss", over="x", form="linear")
    found = verdict(claim, SHAPES["linear"], metric="peak_rss", levels=("1", "2", "4", "8", "16"))
    assert found.verdict == "holds" and "instructions" not in found.evidence


def test_more_is_better_where_the_metric_says_so() -> None:
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


WITHOUT_X16 = (Failure("m x=16", "one", 1, 8, "signal", "m was killed by signal 11"),)
ONE = {"metric": "wall", "treatments": ("one",)}


@pytest.mark.parametrize(
    "claim, failures, why",
    [
        (Claim("", "faster_than", **ONE), WITHOUT_X16, "was not measured at x=16"),
        (Claim("", "faster_than", metric="wall", treatments=("base",), than=("two",)), (), ""),
        (Claim("", "faster_than", metric="wall", treatments=("one", "llalloc")), (), "llalloc was not measured"),
        (Claim("", "faster_than", **ONE, than=("two", "llalloc")), (), "llalloc was not measured"),
        (Claim("", "faster_than", **ONE, at={"x": ("1", "64")}), (), "x 64 was not run"),
        (Claim("", "faster_than", **ONE, at={"x": ("16",)}), WITHOUT_X16, "one failed (signal)"),
        (Claim("", "within", **ONE, bounds=(0.5, 2.0)), WITHOUT_X16, "was not measured at x=16"),
        (Claim("", "monotone", **ONE, over="x"), WITHOUT_X16, "was not measured at x=16"),
        (Claim("", "grows_like", **ONE, over="x"), WITHOUT_X16, "was not measured at x=16"),
        (Claim("", "ranks", **ONE), WITHOUT_X16, "was not measured at x=16"),
        (Claim("", "ranks", metric="wall", treatments=("base",), than=("one", "two")), WITHOUT_X16, "without one"),
        (Claim("", "ranks", metric="wall", treatments=("base",)), WITHOUT_X16, None),
    ],
)  # fmt: skip
def test_what_was_not_measured_bears_nothing_out(claim: Claim, failures: tuple[Failure, ...], why: str | None) -> None:
    """`why`: what leaves the claim open; "": it holds, all being measured; None: it holds in a field that one left."""
    found = judge(claim, study(by_speed, failures=failures))
    assert found.verdict == ("cannot tell" if why else "holds"), found.evidence
    assert (why or "") in found.evidence
    if why is None:
        assert "without one, not measured everywhere" in found.evidence


def test_what_was_not_measured_hides_no_contradiction() -> None:
    falls = Claim("", "monotone", **ONE, over="x", direction="falls")
    assert judge(falls, study(by_speed, failures=WITHOUT_X16)).verdict == "does not hold"
    slower = Claim("", "faster_than", metric="wall", treatments=("llalloc", "two"))
    found = judge(slower, study(by_speed))
    assert found.verdict == "does not hold" and [p[1] for p in found.parts] == ["does not hold", "cannot tell"]


def crossed(truth: dict[tuple[str, str], float], missing: tuple[str, str] | None = None) -> Observations:
    """Two factors, x and size; `missing`: the cell where treatment one has no value in the first round."""
    parts = [study(lambda level, treatment, size=size: truth[f"{level:g}", size], levels=("1", "2"), seed=int(size))
             for size in ("8", "64")]  # fmt: skip
    rows, levels = [], {}
    for number, (size, part) in enumerate(zip(("8", "64"), parts, strict=True)):
        levels |= {f"{w} size={size}": {"x": at["x"], "size": size} for w, at in part.levels.items()}
        rows += [replace(r, workload=f"{r.workload} size={size}", block=1000 * number + r.block) for r in part.rows]
    rows = [r for r in rows if not (r.treatment == "one" and r.round == 0 and missing
            and r.workload == f"m x={missing[0]} size={missing[1]}")]  # fmt: skip
    return replace(parts[0], workloads=tuple(levels), levels=levels, rows=tuple(rows))


def test_levels_are_compared_over_the_same_workloads() -> None:
    """A value missing at one size must not pass for an effect of x: its whole round is left out."""
    truth = {("1", "8"): 1.0, ("2", "8"): 1.0, ("1", "64"): 100.0, ("2", "64"): 100.0}
    flat = Claim("", "flat_in", **ONE, over="x", bounds=(0.9, 1.1))
    assert judge(flat, crossed(truth)).verdict == "holds"
    assert judge(flat, crossed(truth, missing=("2", "64"))).verdict == "holds"


EQUAL = {"levels": ("1", "2", "4"), "rounds": 5}
MANY = EQUAL | {"treatments": ("base", "one", "two", "three", "four", "five")}


def borders() -> list[object]:
    """(claim, truth on the border of holding and not, how simulated, the verdicts that would be wrong)"""
    both, none = ("holds", "does not hold"), SHAPES["constant"]
    flat = Claim("", "flat_in", metric="wall", over="x", bounds=(0.9, 1.1))
    quiet = [
        (Claim("", "faster_than", **ONE), none, EQUAL, both),
        (Claim("", "faster_than", metric="wall"), none, MANY, both),
        (Claim("", "within", **ONE, bounds=(1.0, 2.0)), none, EQUAL, both),
        (Claim("", "within", metric="wall", bounds=(1.0, 2.0)), none, MANY, both),
        (Claim("", "ranks", **ONE), none, EQUAL, both),
        (Claim("", "ranks", metric="wall", treatments=("one", "two"), places=2), none, MANY, both),
        (Claim("", "monotone", **ONE, over="x"), none, EQUAL, both),
        (Claim("", "monotone", metric="wall", over="x"), none, MANY, both),
        (replace(flat, treatments=("one",)), lambda n, _: 1.1 if n == 4 else 1.0, EQUAL, both),
        (flat, lambda n, _: 1.1 if n == 4 else 1.0, MANY, both),
    ]
    noisy = [
        (Claim("", "grows_like", metric="wall", over="x", form=form), truth,  # type: ignore[arg-type]
         {"noise": noise, "rounds": rounds}, ("does not hold",))
        for form, truth in SHAPES.items() for noise, rounds in ((0.05, 4), (0.5, 3))
    ]  # fmt: skip
    wrong = [
        (Claim("", "grows_like", **ONE, over="x", form=form), SHAPES[other],  # type: ignore[arg-type]
         {"noise": 0.1, "rounds": 5}, ("holds",))
        for form, other in (("constant", "log"), ("log", "linear"), ("linear", "log"), ("quadratic", "linear"),
                            ("linear", "quadratic"), ("n log n", "log"))
    ]  # fmt: skip
    return [pytest.param(*case, id=f"{number} {case[0].kind}") for number, case in enumerate(quiet + noisy + wrong)]


def few_wrong(claim: Claim, truth: Truth, how: dict[str, object], wrong: tuple[str, ...], studies: int) -> None:
    """Each wrong verdict in about 5 % of the studies at most; the limit is 3.5 standard deviations above that."""
    verdicts = [verdict(claim, truth, seed=seed, **how).verdict for seed in range(studies)]
    limit = 0.05 * studies + 3.5 * math.sqrt(0.05 * 0.95 * studies)
    for each in wrong:
        assert verdicts.count(each) <= limit, (each, verdicts.count(each), studies)


@pytest.mark.parametrize("claim, truth, how, wrong", borders())
def test_errors_are_rare_where_truth_is_on_the_border(claim, truth, how, wrong) -> None:
    few_wrong(claim, truth, how, wrong, 100)


@pytest.mark.on_request
@pytest.mark.parametrize("claim, truth, how, wrong", borders())
def test_errors_are_rare_in_many_studies(claim, truth, how, wrong) -> None:
    few_wrong(claim, truth, how, wrong, 2000)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_shape_of_data_raises(data: st.DataObject) -> None:
    full = study(by_speed, rounds=data.draw(st.integers(1, 4)), levels=LEVELS[: data.draw(st.integers(1, 5))],
                 noise=data.draw(st.sampled_from([0.0, 0.01, 1.0])))  # fmt: skip
    kept = tuple(r for r in full.rows if data.draw(st.integers(0, 9)) > 0)
    odd = st.sampled_from([0.0, 1e-300, 1e300, math.inf, math.nan, -1.0])
    kept = tuple(replace(r, value=data.draw(odd)) if data.draw(st.integers(0, 19)) == 0 else r for r in kept)
    failures = (Failure(full.workloads[0], "one", 1, 2, "signal", "crash"),) if data.draw(st.booleans()) else ()
    kinds = ("faster_than", "within", "ranks", "monotone", "flat_in", "grows_like")
    form = data.draw(st.sampled_from(list(SHAPES)))
    claims = tuple(Claim("", k, metric="wall", over="x", bounds=(0.5, 2.0), form=form) for k in kinds)  # type: ignore
    figures = (Figure("f", "wall", "x"), Figure("r", "wall", "x", relative=True))
    analysis = analyse(replace(full, rows=kept, failures=failures, claims=claims, figures=figures))
    assert len(analysis.judgements) == len(kinds) and len(analysis.curves) == 2

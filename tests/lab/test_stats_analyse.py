# SPDX-License-Identifier: Apache-2.0
"""From rows to answers: what is compared, left out, averaged, and said."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heapyard.model.experiment import Settings
from heapyard.model.observations import Failure, Observation, Observations
from heapyard.stats.analyse import analyse
from heapyard.stats.overall import common_set

BASE, CONTROL = "glibc", "glibc (A/A control)"
PRIMARY = ("wall", "peak_rss")


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def observe(
    effects=None,
    *,
    workloads=("jq", "z3", "gawk"),
    treatments=(BASE, "je", "mi", "sc"),
    blocks=8,
    sd=0.01,
    seed=0,
    metrics=PRIMARY,
    control=True,
    settings=Settings(baseline=BASE),
    failures=(),
    size=1.0,
    program_sd=0.0,
):
    """Rows of a simulated experiment; `effects` maps (treatment, metric) or treatment to a log ratio to the
    baseline."""
    rng = np.random.default_rng(seed)
    labels = (*treatments, CONTROL) if control else tuple(treatments)
    rows = []
    for place, workload in enumerate(workloads):
        own = {t: rng.normal(0, program_sd) if t not in (BASE, CONTROL) else 0.0 for t in labels}
        for b in range(blocks):
            for metric in metrics:
                drift = rng.normal(0, 0.05)
                for t in labels:
                    effect = (effects or {}).get((t, metric), (effects or {}).get(t, 0.0)) + own[t]
                    value = size * math.exp(drift + effect + rng.normal(0, sd))
                    rows.append(Observation(workload, t, 1000 * place + b, metric, value))
    return Observations(
        tuple(workloads), tuple(treatments), BASE, CONTROL if control else "", tuple(rows), tuple(failures), settings
    )


def failed(workload, treatment, count=1, of=8):
    return Failure(workload, treatment, count, of, "signal", "killed by SIGSEGV")


def verdicts(analysis, metric="wall"):
    return {(c.workload, x.treatment): x.verdict for c in analysis.cells if c.metric == metric for x in c.comparisons}


def test_known_effects_are_found_in_every_program_and_over_all():
    effects = {
        ("je", "wall"): math.log(0.93),
        ("mi", "wall"): 0.0,
        ("sc", "wall"): math.log(1.06),
        ("je", "peak_rss"): math.log(1.2),
        ("sc", "peak_rss"): 0.1,
    }
    found = analyse(observe(effects, blocks=20, sd=0.005))
    for workload in ("jq", "z3", "gawk"):
        assert [verdicts(found)[workload, t] for t in ("je", "mi", "sc")] == ["better", "equivalent", "worse"]
    assert {c.treatment: c.verdict for c in found.over_all("wall").comparisons} == {
        "je": "better",
        "mi": "equivalent",
        "sc": "worse",
    }
    cell = found.cell("z3", "wall")
    assert [s.letters for s in cell.summaries] == ["b", "a", "b", "c"]
    assert [s.treatment for s in cell.summaries if s.among_best] == ["je"]
    assert found.over_all("wall").best == "je" and found.over_all("wall").among_best == ("je",)
    assert found.control.clean and found.control.checked == 8  # three programs and their mean, in time and memory
    assert found.control.noise == pytest.approx(0.005, rel=0.25)
    assert [(p.treatment, p.on_front) for p in found.pareto if p.treatment in ("je", "sc")] == [
        ("je", True),
        ("sc", False),
    ]
    assert found.failures == () and found.metrics == PRIMARY and found.treatments == (BASE, "je", "mi", "sc")


def test_the_control_is_nowhere_but_in_the_control():
    found = analyse(observe())
    for cell in found.cells:
        assert CONTROL not in {s.treatment for s in cell.summaries} | {c.treatment for c in cell.comparisons}
        assert cell.control.treatment == CONTROL and cell.residual_df == 7 * 4
    assert CONTROL not in {c.treatment for o in found.overall for c in o.comparisons} | {
        p.treatment for p in found.pareto
    }
    listed = observe()
    assert analyse(replace(listed, treatments=(*listed.treatments, CONTROL))) == found


def test_a_dishonest_machine_is_caught():
    found = analyse(observe({(CONTROL, "peak_rss"): 0.05}, sd=0.01))
    assert set(found.control.differs) == {(w, "peak_rss") for w in ("jq", "z3", "gawk", "")} and not found.control.clean
    assert found.control.alarming


def test_the_alarm_has_a_size():
    """A copy that differs from itself by less than the margin is said, and is no alarm; its size is known."""
    small = analyse(observe({(CONTROL, "wall"): 0.01}, sd=0.002, blocks=12)).control
    assert ("jq", "wall") in small.differs and not small.alarming and 0.008 < small.size < 0.013
    large = analyse(observe({(CONTROL, "wall"): 0.03}, sd=0.002, blocks=12)).control
    assert large.alarming and ("", "wall") in large.misleads


def test_a_small_difference_alarms_beside_a_claim_as_small():
    observations = observe({(CONTROL, "wall"): 0.015, "je": -0.013}, sd=0.0005, blocks=12)
    narrow = replace(observations, settings=replace(observations.settings, margin_time=0.011))
    assert not analyse(observations).control.alarming  # within the margin nothing is claimed
    assert analyse(narrow).control.alarming


def test_order_of_rows_does_not_matter():
    one = observe()
    shuffled = tuple(np.random.default_rng(1).permutation(np.array(one.rows, dtype=object)))
    assert analyse(replace(one, rows=shuffled)) == analyse(one)


def test_only_complete_blocks_count():
    whole = observe(blocks=6)
    torn = [
        r
        for r in whole.rows
        if not (r.workload == "jq" and r.block == 3 and r.treatment == "mi" and r.metric == "wall")
    ]
    found = analyse(replace(whole, rows=tuple(torn)))
    assert found.cell("jq", "wall").blocks == 5 and found.cell("jq", "peak_rss").blocks == 6
    without = tuple(r for r in whole.rows if not (r.workload == "jq" and r.block == 3 and r.metric == "wall"))
    assert found == analyse(replace(whole, rows=without))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0])
def test_a_value_that_cannot_be_is_a_missing_one(bad):
    whole = observe(blocks=6)
    at = next(i for i, r in enumerate(whole.rows) if r.metric == "wall")
    broken = replace(whole, rows=(*whole.rows[:at], replace(whole.rows[at], value=bad), *whole.rows[at + 1 :]))
    missing = replace(whole, rows=(*whole.rows[:at], *whole.rows[at + 1 :]))
    assert analyse(broken) == analyse(missing)
    assert analyse(broken).cell("jq", "wall").blocks == 5


def test_a_treatment_that_crashed_once_was_not_measured_there():
    found = analyse(observe(failures=[failed("jq", "sc")]))
    assert "sc" not in {s.treatment for s in found.cell("jq", "wall").summaries}
    assert "sc" in {s.treatment for s in found.cell("z3", "wall").summaries}
    assert found.failures == (failed("jq", "sc"),)
    overall = found.over_all("wall")
    assert overall.workloads == ("z3", "gawk")
    assert {c.treatment for c in overall.comparisons} == {"je", "mi", "sc"}
    assert any("jq" in note and "2 of 3" in note for note in found.notes)


def test_a_crash_never_looks_like_a_fast_run():
    """A treatment that dies early has short times; they must not reach any mean."""
    found = analyse(observe({"sc": math.log(0.01)}, failures=[failed(w, "sc") for w in ("jq", "z3", "gawk")]))
    names = {x.treatment for c in found.cells for x in c.comparisons} | {
        x.treatment for o in found.overall for x in o.comparisons
    }
    assert names == {"je", "mi"} and "sc" not in {p.treatment for p in found.pareto}
    assert found.over_all("wall").workloads == ("jq", "z3", "gawk")
    assert any("sc counted on too few" in note for note in found.notes)


def test_without_its_baseline_a_program_is_not_compared():
    found = analyse(observe(failures=[failed("z3", BASE, 8)]))
    assert found.cell("z3", "wall") is None and found.cell("jq", "wall") is not None
    assert any(note.startswith("z3: the baseline glibc failed") for note in found.notes)


def test_a_failed_control_leaves_the_comparisons_standing():
    found = analyse(observe(failures=[failed("z3", CONTROL)]))
    assert found.cell("z3", "wall").control is None and len(found.cell("z3", "wall").comparisons) == 3
    assert found.control.checked == 4


def test_a_metric_that_one_treatment_lacks_is_compared_among_the_others():
    whole = observe()
    found = analyse(replace(whole, rows=tuple(r for r in whole.rows if (r.treatment, r.metric) != ("mi", "wall"))))
    assert [s.treatment for s in found.cell("jq", "wall").summaries] == [BASE, "je", "sc"]
    assert [s.treatment for s in found.cell("jq", "peak_rss").summaries] == [BASE, "je", "mi", "sc"]
    assert {p.treatment for p in found.pareto} == {BASE, "je", "sc"}


def test_one_program_is_its_own_overall():
    found = analyse(observe({"je": 0.1}, workloads=("jq",)))
    overall, cell = found.over_all("wall"), found.cell("jq", "wall")
    assert [c.interval for c in cell.comparisons] == [c.interval for c in overall.comparisons]
    assert [c.verdict for c in cell.comparisons] == [c.verdict for c in overall.comparisons]
    assert set(overall.among_best) == {s.treatment for s in cell.summaries if s.among_best}


def test_overall_ratio_is_the_geometric_mean_of_the_programs_ratios():
    found = analyse(observe({"je": 0.1}, program_sd=0.1))
    per_program = [
        c.interval.ratio
        for cell in found.cells
        if cell.metric == "wall"
        for c in cell.comparisons
        if c.treatment == "je"
    ]
    overall = next(c for c in found.over_all("wall").comparisons if c.treatment == "je")
    assert overall.interval.ratio == pytest.approx(math.prod(per_program) ** (1 / 3), rel=1e-12)
    assert overall.blocks == min(c.blocks for c in found.cells)


def test_programs_that_disagree_widen_the_prediction_and_not_the_mean():
    """The programs are fixed: how much they disagree says nothing of their own mean, and all of the next one."""

    def widths(program_sd):
        overall = analyse(observe(program_sd=program_sd, workloads=tuple("abcdefgh"), seed=3)).over_all("wall")
        mean = np.mean([math.log(c.interval.high / c.interval.low) for c in overall.comparisons])
        return mean, np.mean([math.log(n.interval.high / n.interval.low) for n in overall.next_program])

    (mean, following), (same, wider) = widths(0.0), widths(0.1)
    assert same == pytest.approx(mean, rel=1e-9) and wider > 5 * following


def test_a_program_counts_once_however_many_blocks_it_has():
    whole = observe({"je": 0.1}, program_sd=0.1, workloads=("jq", "z3"))
    doubled = replace(
        whole, rows=(*whole.rows, *(replace(r, block=r.block + 500) for r in whole.rows if r.workload == "z3"))
    )
    one, two = (
        next(c for c in analyse(o).over_all("wall").comparisons if c.treatment == "je").interval
        for o in (whole, doubled)
    )
    assert one.ratio == pytest.approx(two.ratio, rel=1e-12)


class Bare:
    """A table as common_set sees it."""

    def __init__(self, workload, *labels):
        self.workload, self.labels = workload, labels


def test_common_set():
    everywhere = [Bare("a", "g", "x", "y"), Bare("b", "g", "x", "y")]
    assert common_set(everywhere, ("g", "x", "y"), "g") == (("a", "b"), ("g", "x", "y"))
    once_missing = [*everywhere, Bare("c", "g", "x")]
    assert common_set(once_missing, ("g", "x", "y"), "g") == (("a", "b"), ("g", "x", "y"))
    mostly_missing = [Bare("a", "g", "x", "y"), Bare("b", "g", "x"), Bare("c", "g", "x")]
    assert common_set(mostly_missing, ("g", "x", "y"), "g") == (("a", "b", "c"), ("g", "x"))
    disjoint = [Bare("a", "g", "x"), Bare("b", "g", "y")]
    assert common_set(disjoint, ("g", "x", "y"), "g") == (("a",), ("g", "x"))
    assert common_set([], ("g", "x"), "g") == ((), ("g",))


def test_pareto_front_by_point_estimates():
    effects = {
        ("je", "wall"): -0.1,
        ("je", "peak_rss"): 0.2,
        ("mi", "wall"): -0.05,
        ("mi", "peak_rss"): -0.3,
        ("sc", "wall"): 0.1,
    }
    found = analyse(observe(effects, sd=0.002))
    assert {p.treatment: p.on_front for p in found.pareto} == {BASE: False, "je": True, "mi": True, "sc": False}
    glibc = next(p for p in found.pareto if p.treatment == BASE)
    assert (glibc.time.low, glibc.time.high, glibc.memory.ratio) == (1, 1, 1)
    assert next(p for p in found.pareto if p.treatment == "je").memory.ratio == pytest.approx(math.exp(0.2), rel=0.01)


def test_what_is_worse_than_the_baseline_is_not_among_the_best():
    """The test of all pairs corrects for more and may miss what the comparison with the baseline shows."""
    seen = 0
    for seed in range(40):
        analysis = analyse(observe({"sc": 0.04}, blocks=6, sd=0.02, seed=seed, program_sd=0.01))
        for metric in PRIMARY:
            overall = analysis.over_all(metric)
            for c in overall.comparisons:
                assert not (c.verdict == "worse" and c.treatment in overall.among_best)
        for cell in analysis.cells:
            worse = {c.treatment for c in cell.comparisons if c.verdict == "worse"}
            seen += len(worse)
            assert not any(s.among_best for s in cell.summaries if s.treatment in worse)
    assert seen > 20


def test_directions():
    """More is better for nobody among the built-in metrics; context switches have no better side."""
    found = analyse(observe({"je": -0.5, "mi": 0.5}, metrics=("wall", "voluntary_switches"), size=1e4, blocks=10))
    assert {s.treatment for s in found.cell("jq", "wall").summaries if s.among_best} == {"je"}
    assert all(s.among_best for s in found.cell("jq", "voluntary_switches").summaries)


def test_counts_are_compared_with_one_added_and_shown_without():
    rows = [Observation("jq", t, b, "major_faults", v) for b in range(4) for t, v in ((BASE, 0.0), ("je", 3.0))]
    found = analyse(Observations(("jq",), (BASE, "je"), BASE, "", tuple(rows)))
    cell = found.cell("jq", "major_faults")
    assert [s.mean for s in cell.summaries] == [0.0, pytest.approx(3.0)]
    assert cell.comparisons[0].interval.ratio == pytest.approx(4.0)


def test_seconds_that_may_be_zero_are_shifted_by_a_millisecond_not_a_second():
    rows = [Observation("jq", t, b, "sys", v) for b in range(4) for t, v in ((BASE, 0.010), ("je", 0.021))]
    found = analyse(Observations(("jq",), (BASE, "je"), BASE, "", tuple(rows)))
    assert found.cell("jq", "sys").comparisons[0].interval.ratio == pytest.approx(2.0)


def test_zero_in_a_positive_metric_is_said():
    rows = [Observation("jq", t, b, "user", v) for b in range(4) for t, v in ((BASE, 0.0), ("je", 0.001))]
    found = analyse(Observations(("jq",), (BASE, "je"), BASE, "", tuple(rows)))
    assert found.cell("jq", "user").comparisons[0].interval.ratio == pytest.approx(2.0)
    assert any(note.startswith("user time was zero") for note in found.notes)


def test_margins_of_time_and_memory_differ():
    near = analyse(observe({"je": math.log(1.035)}, sd=0.001, workloads=("jq",)))
    assert near.cell("jq", "wall").comparisons[0].verdict == "worse"
    assert near.cell("jq", "peak_rss").comparisons[0].verdict == "equivalent"
    wider = analyse(observe({"je": math.log(1.035)}, sd=0.001, workloads=("jq",), settings=Settings(margin_time=0.04)))
    assert wider.cell("jq", "wall").comparisons[0].verdict == "equivalent"


def test_undecided_says_how_many_more_blocks():
    found = analyse(observe(sd=0.05, blocks=4))
    undecided = [x for c in found.cells for x in c.comparisons if x.verdict == "undecided"]
    assert undecided and all(x.blocks_to_decide and x.blocks_to_decide > 0 for x in undecided)
    assert all(x.blocks_to_decide is None for c in analyse(observe(sd=1e-4)).cells for x in c.comparisons)


def test_missed_precision_is_said():
    assert any("±1.0% of a wall time ratio was not reached" in n for n in analyse(observe(sd=0.05)).notes)
    assert not any("not reached" in n for n in analyse(observe(sd=0.001)).notes)


def test_a_claim_that_ranks_do_not_support_is_said():
    """Two blocks of nine against the trend: the t-interval just excludes 1, the signed-rank interval does not."""

    def notes(shifts):
        rows = [
            Observation("jq", t, b, "wall", math.exp(s if t == "je" else 0))
            for b, s in enumerate(shifts)
            for t in (BASE, "je")
        ]
        found = analyse(Observations(("jq",), (BASE, "je"), BASE, "", tuple(rows)))
        assert found.cell("jq", "wall").comparisons[0].verdict == "worse"
        return [n for n in found.notes if "ranks give" in n]

    shifts = [0.20, 0.17, 0.15, 0.1, 0.08, 0.06, -0.005, -0.08, 0.04]
    assert len(notes(shifts)) == 1 and "jq, wall time, je: the model says worse" in notes(shifts)[0]
    assert not notes([abs(s) for s in shifts])


@pytest.mark.parametrize(
    "case", ["one block", "nothing", "constant", "all zero", "two blocks", "one treatment", "wild"]
)
def test_the_edges_give_an_answer(case):
    made = {
        "one block": lambda: observe(blocks=1),
        "nothing": lambda: replace(observe(), rows=()),
        "constant": lambda: replace(observe(), rows=tuple(replace(r, value=7.0) for r in observe().rows)),
        "all zero": lambda: replace(observe(), rows=tuple(replace(r, value=0.0) for r in observe().rows)),
        "two blocks": lambda: observe(blocks=2, treatments=(BASE, "je"), control=False),
        "one treatment": lambda: observe(treatments=(BASE,)),
        "wild": lambda: observe(blocks=2, sd=150.0),
    }[case]()
    found = analyse(made)
    for cell in found.cells:
        for x in (*cell.comparisons, *([cell.control] if cell.control else [])):
            assert x.interval.low <= x.interval.ratio <= x.interval.high and 0 <= x.p_value <= 1
            assert x.simultaneous.low <= x.interval.ratio <= x.simultaneous.high
            if case in ("constant", "all zero"):
                assert x.verdict == "equivalent" and x.interval.low == x.interval.high == 1
            if case == "one block":
                assert x.verdict == "undecided" and x.interval.high == math.inf
    assert not found.control.alarming or case == "wild"
    if case == "nothing":
        assert found.cells == found.overall == found.pareto == () and math.isnan(found.control.noise)


# Properties that hold for any data.

seeds = st.integers(0, 10_000)


def close(one, other, rel=1e-9):
    return all(getattr(one, f) == pytest.approx(getattr(other, f), rel=rel) for f in ("ratio", "low", "high"))


@settings(max_examples=20, deadline=None)
@given(seeds, st.floats(1e-6, 1e9))
def test_units_do_not_matter(seed, factor):
    """Seconds or nanoseconds: every ratio, interval, p-value and verdict stays, every mean scales."""
    one = observe({"je": 0.03}, seed=seed, workloads=("jq", "z3"), blocks=5)
    scaled = analyse(replace(one, rows=tuple(replace(r, value=r.value * factor) for r in one.rows)))
    for a, b in zip(analyse(one).cells, scaled.cells, strict=True):
        for x, y in zip(a.comparisons, b.comparisons, strict=True):
            assert close(x.interval, y.interval) and close(x.simultaneous, y.simultaneous) and x.verdict == y.verdict
            assert x.p_value == pytest.approx(y.p_value, rel=1e-6)
        for x, y in zip(a.summaries, b.summaries, strict=True):
            assert y.mean == pytest.approx(factor * x.mean, rel=1e-9) and x.letters == y.letters


@settings(max_examples=20, deadline=None)
@given(seeds, st.permutations(["je", "mi", "sc"]))
def test_names_do_not_matter(seed, names):
    one = observe({"je": 0.03}, seed=seed, workloads=("jq",), blocks=5)
    new = dict(zip(("je", "mi", "sc"), names, strict=True))
    other = analyse(replace(one, rows=tuple(replace(r, treatment=new.get(r.treatment, r.treatment)) for r in one.rows)))
    for cell, renamed in zip(analyse(one).cells, other.cells, strict=True):
        by_name = {x.treatment: x for x in renamed.comparisons}
        letters = {s.treatment: (s.letters, s.among_best) for s in renamed.summaries}
        for x in cell.comparisons:
            y = by_name[new[x.treatment]]
            assert close(x.interval, y.interval) and close(x.simultaneous, y.simultaneous) and x.verdict == y.verdict
        for s in cell.summaries:
            assert letters[new.get(s.treatment, s.treatment)] == (s.letters, s.among_best)


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_exchanging_baseline_and_treatment_inverts_the_interval(seed):
    one = observe({"je": 0.03}, seed=seed, workloads=("jq",), blocks=6, control=False)
    there, back = analyse(one), analyse(replace(one, baseline="je"))
    for a, b in zip(there.cells, back.cells, strict=True):
        x = next(c for c in a.comparisons if c.treatment == "je")
        y = next(c for c in b.comparisons if c.treatment == BASE)
        assert x.interval.ratio == pytest.approx(1 / y.interval.ratio, rel=1e-12)
        assert (x.interval.low, x.interval.high) == pytest.approx((1 / y.interval.high, 1 / y.interval.low), rel=1e-9)
        if a.method == "t":  # a moderated t looks at the other pairs with the same baseline, too
            assert x.p_value == pytest.approx(y.p_value, rel=1e-6)
            assert y.verdict == {"better": "worse", "worse": "better"}.get(x.verdict, x.verdict)


@settings(max_examples=20, deadline=None)
@given(seeds, st.lists(st.floats(-1, 1), min_size=5, max_size=5))
def test_drift_from_block_to_block_does_not_matter(seed, drift):
    """A machine that is slower in some blocks changes no ratio at all, nor its interval."""
    one = observe({"je": 0.03}, seed=seed, workloads=("jq",), blocks=5)
    drifting = analyse(replace(one, rows=tuple(replace(r, value=r.value * math.exp(drift[r.block])) for r in one.rows)))
    for a, b in zip(analyse(one).cells, drifting.cells, strict=True):
        assert a.residual_cv == pytest.approx(b.residual_cv, rel=1e-6)
        for x, y in zip(a.comparisons, b.comparisons, strict=True):
            assert close(x.interval, y.interval, 1e-8) and x.verdict == y.verdict

# SPDX-License-Identifier: Apache-2.0
"""`heapyard plan --fleet`: a schedule held to what any schedule must obey, and what is said where nothing was measured."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cli_plan import write
from yard import FakeLaunch, experiment

from heapyard import store
from heapyard.design.fleet_plan import forecasts, sizes_up_to, stages_of
from heapyard.design.fleet_schedule import Piece, simulate
from heapyard.design.trial_times import draw_pieces, trial_times
from heapyard.execute.experiment import carry_out
from heapyard.model.record import TrialRecord

SECONDS = st.floats(0.01, 100)
PIECES = st.builds(Piece, st.integers(0, 5), SECONDS, st.lists(SECONDS, max_size=2).map(tuple))
STAGES = st.lists(st.lists(PIECES, min_size=1, max_size=12), min_size=1, max_size=3)


def chain(piece: Piece, start: float) -> float:
    """Attempts of one block cannot overlap."""
    return piece.seconds + sum(piece.cuts) + start * (1 + len(piece.cuts))


@settings(max_examples=60, deadline=None)
@given(STAGES, st.integers(1, 9), st.floats(0, 5))
def test_no_schedule_beats_the_work_or_the_critical_path(stages: list[list[Piece]], nodes: int, start: float) -> None:
    ran = simulate(stages, nodes, job_start=start)
    work = sum(chain(p, start) for stage in stages for p in stage)
    path = sum(max(chain(p, start) for p in stage) for stage in stages)
    assert ran.duration >= max(work / nodes, path) * (1 - 1e-9)
    assert ran.node_seconds == pytest.approx(work)
    assert ran.repeated == sum(len(p.cuts) for stage in stages for p in stage)
    # Graham: no list schedule takes longer than the work of each stage spread evenly, and its path.
    assert ran.duration <= work / nodes + path + 1e-9
    assert max(ran.busy) <= ran.duration + 1e-9 and 0 < ran.full <= 1 + 1e-9


@settings(max_examples=30, deadline=None)
@given(STAGES, st.floats(0, 5))
def test_one_node_takes_the_sum_and_many_take_the_longest_of_each_stage(stages: list[list[Piece]], start: float) -> None:
    assert simulate(stages, 1, job_start=start).duration == pytest.approx(sum(chain(p, start) for s in stages for p in s))
    assert simulate(stages, 50, job_start=start).duration == pytest.approx(
        sum(max(chain(p, start) for p in stage) for stage in stages)
    )


def by_the_clock(stages: list[list[Piece]], nodes: int) -> float:
    """The same policy in whole seconds, one tick after another."""
    now = 0
    for pieces in stages:
        due = sorted(range(len(pieces)), key=lambda p: (pieces[p].round, p))
        left: dict[int, int] = {}
        while due or left:
            while due and len(left) < nodes:
                place = due.pop(0)
                left[place] = int(pieces[place].seconds)
            now += 1
            left = {place: seconds - 1 for place, seconds in left.items() if seconds > 1}
    return now


WHOLE = st.lists(
    st.lists(st.builds(Piece, st.integers(0, 3), st.integers(1, 9).map(float)), min_size=1, max_size=10), min_size=1, max_size=2
)


@settings(max_examples=60, deadline=None)
@given(WHOLE, st.integers(1, 5))
def test_events_give_what_a_clock_gives(stages: list[list[Piece]], nodes: int) -> None:
    assert simulate(stages, nodes).duration == by_the_clock(stages, nodes)


def test_rounds_come_in_order_and_a_repeated_block_at_the_end_of_its_round() -> None:
    # Round 0: two blocks of which the first is cut after 1 s; round 1: one of 5 s. The repeat (2 s) goes before round 1.
    stage = [Piece(0, 2.0, (1.0,)), Piece(0, 4.0), Piece(1, 5.0)]
    assert simulate([stage], 1).duration == 12.0
    two = simulate([stage], 2)
    assert (two.duration, sorted(two.busy)) == (8.0, [4.0, 8.0])  # 1 + 2 + 5 on one node, 4 on the other


def test_an_attempt_that_may_not_be_repeated_runs_to_its_end() -> None:
    ran = simulate([[Piece(0, 10.0, (3.0, 3.0))]], 1, most_repeats=1)
    assert (ran.duration, ran.repeated) == (13.0, 1)


def test_a_fleet_has_a_node() -> None:
    with pytest.raises(ValueError):
        simulate([[Piece(0, 1.0)]], 0)


def test_stages_are_those_of_the_loop(tmp_path: Path) -> None:
    """What the simulation gives out is what the loop plans: the same blocks with the same orders."""
    exp = experiment(pilot_blocks=3, precision=0.5, max_blocks=5, interleave="trials")
    with store.create(exp, tmp_path) as journal:
        carry_out(exp, journal, FakeLaunch(noise=0.02), scratch=tmp_path)
        ran = [b for b, _ in journal.plan()]
    totals = {p.name: 1 + max(b.round for b in ran if b.workload == p.name and b.stage != "warmup") for p in exp.programs}
    planned = [b for stage in stages_of(exp, totals) for b in stage]
    assert [replace(b, index=0) for b in planned] == [replace(b, index=0) for b in ran]


def trial(number: int, block: int, label: str, begin: float, end: float, **more: object) -> TrialRecord:
    fields = {"attempt": 0, "stage": "main", "workload": "one", "position": 0, "status": "ok", "counted": True, "metrics": {},
              "command_line": "", "round": block}  # fmt: skip
    return TrialRecord(**{**fields, "id": number, "block": block, "treatment": label, "started": begin, "ended": end, **more})


def test_a_block_takes_its_span_whether_trials_ran_in_turn_or_by_turns() -> None:
    apart = [trial(1, 0, "glibc", 0, 2), trial(2, 0, "swift", 3, 4)]
    together = [trial(3, 1, "glibc", 10, 16), trial(4, 1, "swift", 10, 16)]
    times = trial_times(apart + together, "glibc")
    assert times.labels == {"one": ["glibc", "swift"]}
    assert times.blocks["one"].sum(axis=1) == pytest.approx([4, 6])
    assert times.blocks["one"][1] == pytest.approx([3, 3])
    assert times.job_start is None and times.repeated == 0


def test_repeats_and_the_start_of_a_job_are_read_from_a_fleet() -> None:
    first = [
        trial(1, 0, "glibc", 0, 2, node="n1", round=0, counted=False),
        trial(2, 1, "glibc", 5, 7, node="n1", round=0, attempt=1),
    ]
    second = [trial(3, 2, "glibc", 0, 2, node="n2", round=1), trial(4, 3, "glibc", 4, 6, node="n2", round=2)]
    times = trial_times(first + second, "glibc")
    assert times.repeated == 1 / 4
    assert times.job_start == 2.5  # 3 s on n1, 2 s on n2


def test_what_was_not_measured_takes_what_the_baseline_takes() -> None:
    exp = experiment(programs=("one",), blocks=2)
    times = trial_times([trial(1, 0, "glibc", 0, 2)], "glibc")
    stages = stages_of(exp, {"one": 2})
    pieces = draw_pieces(stages[1], times, "glibc", np.random.default_rng(1))
    assert [p.seconds for p in pieces] == [8.0, 8.0]  # four labels


def test_more_nodes_never_take_longer_here_and_the_same_seed_gives_the_same() -> None:
    exp = experiment(programs=("one",), blocks=12)
    random = np.random.default_rng(5)
    trials = [trial(b, b, "glibc", 0, float(t)) for b, t in enumerate(random.lognormal(0, 0.3, 8))]
    times, stages = trial_times(trials, "glibc"), stages_of(exp, {"one": 12})
    sizes = sizes_up_to(100, stages)
    assert sizes == [1, 3, 10, 12, 100]
    found = forecasts(exp, stages, times, sizes, job_start=0.5, seed=3, courses=20)
    assert found == forecasts(exp, stages, times, sizes, job_start=0.5, seed=3, courses=20)
    assert all(f.low <= f.duration <= f.high for f in found)
    assert all(a.duration >= b.duration for a, b in zip(found, found[1:], strict=False))
    assert found[-1].duration >= found[-1].longest and math.isclose(found[0].full, 1.0)


def test_a_plan_for_a_fleet_goes_by_the_newest_experiment_that_fits(heapyard, two: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "s", "one.toml", two)
    nothing = heapyard("plan", str(path), "--fleet", "10", "--no-pilot", "--scale", "large")
    assert nothing.code == 2 and "nothing to go by" in nothing.err and f"heapyard run {path}" in nothing.err
    launch = FakeLaunch()
    piloted = heapyard("plan", str(path), "--fleet", "10", "--scale", "large", launch=launch)
    assert piloted.code == 0 and "a pilot of 4 blocks" in piloted.out and launch.calls
    assert heapyard("run", str(path), "--scale", "small", "--no-html").code == 0
    (listed,) = store.list_records(tmp_path / "results")
    unused = FakeLaunch()
    said = heapyard("plan", str(path), "--fleet", "10", "--scale", "large", "--job-start", "2s", "--json", launch=unused)
    assert said.code == 0 and not unused.calls, said.err
    plan = json.loads(said.out)["fleet"]
    assert plan["source"] == f"experiment {listed.id}" and plan["blocks"] == plan["widest"] == 10
    assert [f["nodes"] for f in plan["sizes"]] == [1, 3, 10]
    assert plan["sizes"][2]["duration"] > 4  # the warm-up and one block: two jobs, one after another
    shown = heapyard("plan", str(path), "--fleet", "10", "--scale", "large", "--from", listed.id)
    assert "On 10 nodes" in shown.out and max(map(len, shown.out.splitlines())) <= 80 and "…" not in shown.out


def test_options_of_a_fleet_need_one_and_another_command_is_no_basis(heapyard, two: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "s", "one.toml", two)
    alone = heapyard("plan", str(path), "--job-start", "2s")
    assert alone.code == 2 and "--fleet 10 --job-start" in alone.err
    assert heapyard("run", str(path), "--scale", "small", "--no-html").code == 0
    path.write_text(path.read_text().replace('"/bin/echo", "a"', '"/bin/echo", "b"'))
    other = heapyard("plan", str(path), "--fleet", "3", "--from", "last", "--scale", "small")
    assert other.code == 2 and "has not measured other" in other.err

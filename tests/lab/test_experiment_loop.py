# SPDX-License-Identifier: Apache-2.0
"""The loop: what runs, in which order, when it stops, and that an interruption changes nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as st
from yard import FakeLaunch, experiment, program

from heapyard import store
from heapyard.execute.experiment import Ending, carry_out
from heapyard.execute.loop.signals import stop_on_signals
from heapyard.execute.loop.watcher import Moment, Watcher
from heapyard.model import journal as kinds
from heapyard.model.errors import HeapyardError
from heapyard.model.experiment import Experiment, TrialOutcome
from heapyard.model.program import Answer
from heapyard.model.record import Record
from heapyard.stats.analyse import analyse


def run(parent: Path, what: Experiment, launch: FakeLaunch, **options: object) -> Record:
    with store.create(what, parent) as journal:
        ending: Ending = carry_out(what, journal, launch, **options)
        journal.set_status(ending)
    return store.load_record(journal.folder)


def resume(folder: Path, launch: FakeLaunch) -> Record:
    with store.reopen(folder) as journal:
        ending = carry_out(journal.experiment, journal, launch, stop=threading.Event())
        journal.set_status(ending)
    return store.load_record(folder)


def events(record: Record, kind: str) -> list[str]:
    return [e.text for e in record.events if e.kind == kind]


def counted_blocks(record: Record, workload: str) -> int:
    return len({t.block for t in record.trials if t.counted and t.workload == workload})


def test_every_block_holds_every_treatment_once_after_one_warm_up_per_program(tmp_path: Path) -> None:
    launch = FakeLaunch()
    record = run(tmp_path, experiment(blocks=5), launch)
    assert sorted(launch.calls[:2]) == [("one", "glibc"), ("two", "glibc")]
    blocks: dict[int, list[str]] = {}
    for trial in record.trials:
        if trial.counted:
            blocks.setdefault(trial.block, []).append(trial.treatment)
    assert len(blocks) == 10
    assert all(sorted(labels) == sorted(t.label for t in record.experiment.treatments) for labels in blocks.values())
    assert len({tuple(labels) for labels in blocks.values()}) > 1, "the order is always the same"
    assert not list(tmp_path.glob("heapyard-*"))


def test_the_plan_is_stored_before_the_first_trial(tmp_path: Path) -> None:
    what = experiment(blocks=4)
    with store.create(what, tmp_path) as journal:
        seen: list[int] = []
        launch = FakeLaunch()

        def look(*arguments: object, **options: object) -> TrialOutcome:
            seen.append(len(journal.plan()))
            return launch(*arguments, **options)

        carry_out(what, journal, look)
    assert seen[0] == 2 + 4 * 2


def test_trial_folders_are_removed(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    run(tmp_path / "results", experiment(blocks=1), FakeLaunch(), scratch=scratch)
    assert not list(scratch.iterdir())


def test_the_pilot_decides_how_many_blocks(tmp_path: Path) -> None:
    quiet = run(tmp_path / "a", experiment(programs=("one",), precision=0.01), FakeLaunch(noise=0.001))
    loud = run(tmp_path / "b", experiment(programs=("one",), precision=0.01), FakeLaunch(noise=0.02))
    assert counted_blocks(quiet, "one") == 6
    assert counted_blocks(loud, "one") > 15
    assert "one " in events(loud, kinds.PLANNED)[0]
    cell = analyse(loud.observations).cell("one", "wall")
    assert cell is not None and cell.half_width < 0.015


def test_known_effects_are_found(tmp_path: Path) -> None:
    launch = FakeLaunch(ratios={"swift": 0.9, "slim": 1.05}, seed=2)  # about one seed in twenty misses, as it should
    record = run(tmp_path, experiment(programs=("one",)), launch)
    cell = analyse(record.observations).cell("one", "wall")
    assert cell is not None
    found = {c.treatment: c for c in cell.comparisons}
    assert found["swift"].simultaneous.low < 0.9 < found["swift"].simultaneous.high
    assert (found["swift"].verdict, found["slim"].verdict) == ("better", "worse")
    assert cell.control is not None and cell.control.verdict not in ("better", "worse")


def test_never_more_blocks_than_allowed(tmp_path: Path) -> None:
    record = run(tmp_path, experiment(programs=("one",), precision=0.0001, max_blocks=9), FakeLaunch(noise=0.05))
    assert counted_blocks(record, "one") == 9


# --- looks


LOOKS = (6, 9, 14, 21)


def took_part(record: Record, workload: str) -> dict[str, int]:
    """Blocks that counted, by treatment."""
    found: dict[str, set[int]] = {}
    for t in record.trials:
        if t.counted and t.workload == workload:
            found.setdefault(t.treatment, set()).add(t.block)
    return {label: len(blocks) for label, blocks in found.items()}


def staged(**settings: object) -> Experiment:
    return experiment(programs=("one",), looks=LOOKS, max_blocks=30, memory_metric="peak_rss", **settings)


def test_a_settled_treatment_is_not_measured_on_and_the_others_are(tmp_path: Path) -> None:
    launch = FakeLaunch(ratios={"swift": 0.7, "slim": 1.021}, noise=0.012)
    record = run(tmp_path, staged(), launch)
    blocks = took_part(record, "one")
    assert blocks["swift"] == 6 < blocks["slim"]
    assert blocks["slim"] == blocks["glibc"] == blocks["glibc (A/A control)"]
    assert "1 of the 2 comparisons" in events(record, kinds.SETTLED)[0] and "swift on one" in events(record, kinds.SETTLED)[0]
    cell = analyse(record.observations).cell("one", "wall")
    assert cell is not None and cell.blocks == blocks["slim"]
    found = {c.treatment: c for c in cell.comparisons}
    assert (found["swift"].blocks, found["slim"].blocks) == (6, blocks["slim"])
    assert found["swift"].verdict == "better" and cell.control is not None and cell.control.blocks == blocks["slim"]


def test_a_program_on_which_all_is_settled_is_left(tmp_path: Path) -> None:
    record = run(tmp_path, staged(), FakeLaunch(ratios={"swift": 0.7, "slim": 1.4}, noise=0.012))
    assert set(took_part(record, "one").values()) == {6}
    assert events(record, kinds.SETTLED) == ["after 6 blocks 2 of the 2 comparisons that were open are settled: all on one"]


def test_memory_must_be_settled_too(tmp_path: Path) -> None:
    launch, dice = FakeLaunch(ratios={"swift": 0.7, "slim": 1.4}, noise=0.012), random.Random(3)

    def wandering(*arguments: object, **options: object) -> TrialOutcome:
        outcome = launch(*arguments, **options)
        return replace(outcome, metrics=outcome.metrics | {"peak_rss": 1e7 * (1 + dice.random())})

    assert took_part(run(tmp_path, staged(), wandering), "one")["swift"] > 6


def test_without_looks_nothing_is_released(tmp_path: Path) -> None:
    what = experiment(programs=("one",), max_blocks=12, precision=0.004)
    record = run(tmp_path, what, FakeLaunch(ratios={"swift": 0.7, "slim": 1.4}, noise=0.012))
    assert set(took_part(record, "one").values()) == {12} and not events(record, kinds.SETTLED)


def test_what_others_need_no_more_goes_to_those_that_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One program is settled after the pilot; under the same budget the other one gets the blocks it leaves."""

    def blocks_of_two(folder: str, looks: tuple[int, ...]) -> int:
        launch = FakeLaunch(noise=0.014, seed=4)

        def by_program(program: object, treatment: object, *rest: object, **options: object) -> TrialOutcome:
            launch.ratios = {"swift": 0.5, "slim": 1.5} if program.name == "one" else {"swift": 1.021, "slim": 0.979}
            return launch(program, treatment, *rest, **options)

        clock = SlowClock(monkeypatch, by_program)
        what = experiment(budget=90.0, looks=looks, memory_metric="peak_rss")
        return took_part(run(tmp_path / folder, what, clock), "two")["swift"]

    assert blocks_of_two("staged", LOOKS) > blocks_of_two("at-once", ())


def test_the_expected_end_counts_the_stages_to_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scribe = Scribe()
    launch = FakeLaunch(ratios={"swift": 1.021, "slim": 1.021}, noise=0.015)
    run(tmp_path, staged(), SlowClock(monkeypatch, launch), watcher=scribe)
    pilot_ended = next(m for m in scribe.moments if m.block.round == 6)
    assert pilot_ended.remaining > 3.5 * 4, "more than the blocks up to the next look"


@hypothesis_settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stops=st.lists(st.integers(0, 60), min_size=1, max_size=4))
def test_a_staged_experiment_comes_to_the_same_releases_however_often_it_is_interrupted(
    tmp_path: Path, stops: list[int]
) -> None:
    class Fixed(FakeLaunch):
        """The noise of a launch depends on the block alone, so that an interruption cannot change what follows."""

        def __call__(self, program, treatment, settings, *, pad, **rest):
            self._random.seed(f"{program.name} {treatment.label} {pad % 97}")
            return super().__call__(program, treatment, settings, pad=0, **rest)

    def fresh(stop_after: int | None = None) -> FakeLaunch:
        return Fixed(ratios={"swift": 0.9, "slim": 1.02}, noise=0.012, stop_after=stop_after)

    what = replace(staged(), programs=(program("one"), program("two")))
    whole = run(tmp_path, what, fresh())
    record = run(tmp_path, what, fresh(stops[0]), stop=threading.Event())
    for number in [*stops[1:], None]:
        if record.status == "interrupted":
            record = resume(record.path, fresh(number))
    assert record.status == "finished"
    for workload in ("one", "two"):
        released = took_part(record, workload)
        assert released["glibc"] == released["glibc (A/A control)"] == max(released.values())
        assert all(n in (*LOOKS, 30, max(released.values())) for n in released.values())
    assert events(whole, kinds.PLANNED) and len(events(record, kinds.PLANNED)) == 1


def test_a_stored_plan_without_looks_is_carried_on_as_it_was(tmp_path: Path) -> None:
    """Settings of an older experiment lack the field; its second stage is Stein's, planned at once."""
    from heapyard.store.codec import decode, encode
    from heapyard.model.experiment import Settings

    old = decode(Settings, encode(Settings()).replace('"looks": [], ', "").replace('"look_levels": [0.001, 0.005], ', ""))
    assert old.looks == () and old == Settings()


class SlowClock:
    """Makes make-believe trials last `seconds` on the clock that the loop reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, launch: FakeLaunch):
        self.now, self.launch = 1000.0, launch
        monkeypatch.setattr("heapyard.execute.loop.runner.time.monotonic", lambda: self.now)

    def __call__(self, *arguments: object, **options: object) -> TrialOutcome:
        outcome = self.launch(*arguments, **options)
        self.now += outcome.metrics.get("wall", 1.0)
        return outcome


def test_no_block_is_begun_that_would_outlast_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SlowClock(monkeypatch, FakeLaunch(noise=1e-9))
    record = run(tmp_path, experiment(programs=("one",), budget=15.0), clock)
    # A warm-up of 1 s and blocks of 4 s: three fit into 15 s.
    assert counted_blocks(record, "one") == 3
    assert events(record, kinds.BUDGET) == ["the budget of 15 s was used up after 3 of 6 blocks"]
    assert record.status == "finished"


def test_a_budget_for_not_even_one_block_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SlowClock(monkeypatch, FakeLaunch())
    with pytest.raises(HeapyardError, match=r"too short: one block of one .* takes about 4"):
        run(tmp_path, experiment(programs=("one",), budget=3.0), clock)


def test_a_larger_budget_continues_the_same_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SlowClock(monkeypatch, FakeLaunch(noise=1e-9))
    first = run(tmp_path, experiment(programs=("one",), budget=15.0), clock)
    with store.reopen(first.path) as journal:
        larger = replace(journal.experiment, settings=replace(journal.experiment.settings, budget=1000.0))
        assert carry_out(larger, journal, clock) == "finished"
    assert counted_blocks(store.load_record(first.path), "one") == 6


def test_a_tripped_guard_repeats_the_whole_block(tmp_path: Path) -> None:
    launch = FakeLaunch(trips=2)  # the warm-up of the first program, then one launch of a block
    record = run(tmp_path, experiment(programs=("one",), blocks=5), launch)
    assert counted_blocks(record, "one") == 5
    assert len(events(record, kinds.REPEATED)) == 1
    assert {t.attempt for t in record.trials} == {0, 1}
    assert not any(t.counted and t.tripped for t in record.trials)


def test_a_repeated_block_waits_for_the_others_of_its_round(tmp_path: Path) -> None:
    launch = FakeLaunch(trips=3)  # two warm-ups, then the first launch of the first block
    record = run(tmp_path, experiment(blocks=2), launch)
    order = list(dict.fromkeys((t.workload, t.attempt) for t in record.trials if t.stage == "main"))
    first, second = order[0][0], order[1][0]
    assert first != second and order[2] == (first, 1)


def test_repetitions_are_capped_and_the_rest_is_noted(tmp_path: Path) -> None:
    record = run(tmp_path, experiment(programs=("one",), blocks=5, redo_limit=0.4), FakeLaunch(trips=10_000))
    assert len(events(record, kinds.REPEATED)) == 2
    assert len(events(record, kinds.NOTED)) == 5, "once for every block"
    assert counted_blocks(record, "one") == 5


def test_a_lasting_disturbance_cannot_eat_the_budget_of_a_large_plan(tmp_path: Path) -> None:
    """The share of repeated blocks is taken of what was done, not of the many blocks that a noisy pilot asks for."""
    made = experiment(programs=("one",), pilot_blocks=6, max_blocks=200)
    record = run(tmp_path, made, FakeLaunch(noise=0.3, trips=10_000, stop_after=60))
    assert counted_blocks(record, "one") > 10
    assert len(events(record, kinds.REPEATED)) <= 4


def test_a_treatment_that_keeps_failing_is_dropped_there_and_only_there(tmp_path: Path) -> None:
    launch = FakeLaunch(faults={("one", "swift"): {"failure": "signal", "reason": "it was killed by SIGSEGV"}})
    record = run(tmp_path, experiment(blocks=6), launch)
    assert launch.calls.count(("one", "swift")) == 2
    assert launch.calls.count(("two", "swift")) == 6
    assert counted_blocks(record, "one") == 6
    (text,) = events(record, kinds.DROPPED)
    assert "swift on one" in text and "SIGSEGV" in text
    (failure,) = record.observations.failures
    assert (failure.workload, failure.treatment, failure.failed, failure.attempted, failure.kind) == (
        "one",
        "swift",
        2,
        2,
        "signal",
    )
    cell = analyse(record.observations).cell("one", "wall")
    assert cell is not None and [c.treatment for c in cell.comparisons] == ["slim"]


def test_a_dropped_treatment_is_not_planned_in_the_main_stage(tmp_path: Path) -> None:
    launch = FakeLaunch(noise=0.03, faults={("one", "swift"): {}})
    record = run(tmp_path, experiment(programs=("one",)), launch)
    main = {t.treatment for t in record.trials if t.stage == "main"}
    assert main == {"glibc", "slim", "glibc (A/A control)"}


def test_a_wrong_answer_is_a_failure_of_the_allocator(tmp_path: Path) -> None:
    launch = FakeLaunch(answers={"swift": "41"})
    record = run(tmp_path, experiment(programs=("one",), blocks=6), launch)
    (failure,) = record.observations.failures
    assert (failure.treatment, failure.kind) == ("swift", "wrong answer")
    assert launch.calls.count(("one", "swift")) == 2
    assert not any(t.counted for t in record.trials if t.treatment == "swift")


def test_a_program_that_contradicts_itself_proves_nothing(tmp_path: Path) -> None:
    launch = FakeLaunch()

    def fickle(*arguments: object, **options: object) -> TrialOutcome:
        return replace(launch(*arguments, **options), answer=str(len(launch.calls)))

    record = run(tmp_path, experiment(programs=("one",), blocks=4), fickle)
    assert not record.observations.failures and counted_blocks(record, "one") == 4


def test_answers_that_shall_be_ignored_are(tmp_path: Path) -> None:
    what = replace(experiment(blocks=4), programs=(program("one", Answer(output="ignore")),))
    assert not run(tmp_path, what, FakeLaunch(answers={"swift": "41"})).observations.failures


def test_a_workload_whose_baseline_fails_is_abandoned(tmp_path: Path) -> None:
    launch = FakeLaunch(faults={("one", "glibc"): {"reason": "it exited with 3 instead of 0"}})
    record = run(tmp_path, experiment(blocks=4), launch)
    assert [c for c in launch.calls if c[0] == "one"] == [("one", "glibc")]
    assert counted_blocks(record, "two") == 4
    assert "exited with 3" in events(record, kinds.ABANDONED)[0]


def test_nothing_left_is_an_error_with_the_reason(tmp_path: Path) -> None:
    faults = {(w, "glibc"): {"reason": "it exited with 3 instead of 0"} for w in ("one", "two")}
    with pytest.raises(HeapyardError, match=r"exited with 3.*1 more") as caught:
        run(tmp_path, experiment(), FakeLaunch(faults=faults))
    assert caught.value.exit_code == 4


def test_patience_follows_the_warm_up_unless_a_limit_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = FakeLaunch(noise=1e-9, seconds=2.0)
    run(tmp_path / "a", experiment(programs=("one",), blocks=1, patience=20.0), SlowClock(monkeypatch, launch))
    assert launch.timeouts[0] == 300.0
    assert launch.timeouts[1:] == pytest.approx([40.0] * 4, rel=1e-6)
    strict = FakeLaunch(seconds=2.0)
    run(tmp_path / "b", experiment(programs=("one",), blocks=1, timeout=7.0), SlowClock(monkeypatch, strict))
    assert set(strict.timeouts) == {7.0}


class Scribe(Watcher):
    def __init__(self) -> None:
        self.moments: list[Moment] = []

    def trial_begins(self, moment: Moment) -> None:
        self.moments.append(moment)


def test_the_watcher_hears_where_the_experiment_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scribe, launch = Scribe(), FakeLaunch(noise=1e-9)
    run(tmp_path, experiment(programs=("one",), blocks=2), SlowClock(monkeypatch, launch), watcher=scribe)
    assert [m.blocks_done for m in scribe.moments] == [0] * 5 + [1] * 4
    assert {m.blocks_planned for m in scribe.moments} == {2}
    assert scribe.moments[1].remaining == pytest.approx(8.0, rel=1e-6)
    assert scribe.moments[-1].remaining == pytest.approx(4.0, rel=1e-6) or scribe.moments[-1].remaining < 4.0


# --- interruption


def outline(record: Record) -> dict[tuple[str, int], set[str]]:
    """Which treatments counted in which round of which workload."""
    found: dict[tuple[str, int], set[str]] = {}
    blocks = {b.index: b for b, _ in store.records.plan_of(record.path)}
    for t in record.trials:
        if t.counted:
            block = blocks[t.block]
            assert t.treatment not in found.setdefault((t.workload, block.round), set()), "counted twice"
            found[t.workload, block.round].add(t.treatment)
    return found


@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stops=st.lists(st.integers(0, 30), min_size=1, max_size=4), blocks=st.sampled_from([None, 3]))
def test_interrupted_anywhere_and_resumed_the_same_blocks_count(
    tmp_path: Path, stops: list[int], blocks: int | None
) -> None:
    what = experiment(blocks=blocks, pilot_blocks=3, precision=0.02)
    whole = outline(run(tmp_path, what, FakeLaunch(noise=0.001)))
    record = run(tmp_path, what, FakeLaunch(noise=0.001, stop_after=stops[0]), stop=threading.Event())
    for number in stops[1:]:
        if record.status == "interrupted":
            record = resume(record.path, FakeLaunch(noise=0.001, stop_after=number))
    if record.status == "interrupted":
        record = resume(record.path, FakeLaunch(noise=0.001))
    assert record.status == "finished"
    assert outline(record) == whole


def test_a_resumed_experiment_says_so_and_remembers_failures(tmp_path: Path) -> None:
    faults = {("one", "swift"): {}}
    record = run(tmp_path, experiment(blocks=6), FakeLaunch(faults=faults, stop_after=25), stop=threading.Event())
    assert record.status == "interrupted" and "after " in events(record, kinds.INTERRUPTED)[0]
    again = FakeLaunch(faults=faults)
    record = resume(record.path, again)
    assert events(record, kinds.RESUMED)
    assert sum((t.workload, t.treatment) == ("one", "swift") for t in record.trials) == 2


def test_the_first_signal_asks_and_the_second_ends() -> None:
    before = signal.getsignal(signal.SIGINT)  # ignored in a job of the background
    with stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
    assert signal.getsignal(signal.SIGINT) is before


RUNNER = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from yard import FakeLaunch, experiment
    from heapyard import store
    from heapyard.execute.experiment import carry_out
    launch = FakeLaunch()
    def slowly(*arguments, **options):
        outcome = launch(*arguments, **options)
        time.sleep(0.002)
        print("trial", flush=True)
        return outcome
    what = experiment(blocks=25)
    with store.create(what, Path(sys.argv[1])) as journal:
        carry_out(what, journal, slowly)
""")


@pytest.mark.parametrize("seed", range(5))
def test_kill_nine_loses_at_most_the_trial_in_flight(tmp_path: Path, seed: int) -> None:
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)]),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    wanted = random.Random(seed).randrange(1, 150)
    seen = sum(1 for _, line in zip(range(wanted), process.stdout, strict=False) if line)
    process.kill()
    seen += len(process.stdout.readlines())
    process.wait()
    record = store.latest(tmp_path)
    assert record.status == "interrupted"
    ended = sum(t.status == "ok" for t in record.trials)
    assert seen - 1 <= ended <= seen
    assert sum(t.status == "started" for t in record.trials) <= 1
    resumed = resume(record.path, FakeLaunch())
    assert resumed.status == "finished"
    assert all(counted_blocks(resumed, w) == 25 for w in ("one", "two"))

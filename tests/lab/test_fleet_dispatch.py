# SPDX-License-Identifier: Apache-2.0
"""The controller of a fleet and the real agents: the same trials as on one machine, whatever is lost, doubled or cut off."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections import Counter
from pathlib import Path

import pytest
from fleet_yard import Site
from yard import FakeLaunch

from heapyard.execute.experiment import carry_out
from heapyard.api.fleet import lease
from heapyard.api.fleet.agent import carry_out_block, work
from heapyard.api.fleet.parcel import read_parcel
from heapyard.execute.loop.watcher import Away, Watcher
from heapyard.model import journal as kinds
from heapyard.model.errors import HeapyardError, UsageError
from heapyard.store import create, load_record
from heapyard.store.returned import CLOSING, read_returned


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def complete(site: Site, blocks: int = 3) -> None:
    """Every block that was planned counts once, with one trial of each treatment."""
    record = site.record()
    counted = Counter((t.workload, t.treatment, t.round) for t in record.trials if t.counted)
    labels, programs = site.experiment.treatments, site.experiment.programs
    wanted = {(p.name, t.label, r) for p in programs for t in labels for r in range(blocks)}
    assert set(counted) == wanted and set(counted.values()) == {1}


def test_blocks_run_on_several_nodes_each_on_one(site: Site) -> None:
    assert site.run() == "finished"
    complete(site)
    record = site.record()
    nodes = {block: {t.node for t in record.trials if t.block == block} for block in {t.block for t in record.trials}}
    assert all(len(names) == 1 for names in nodes.values())
    assert set.union(*nodes.values()) == {"n1", "n2", "n3"} == set(record.nodes)
    assert all(record.nodes[name]["kernel"] == os.uname().release for name in record.nodes)
    assert not list(site.room.blocks.iterdir()), "what was taken in is removed"


def test_the_plan_is_the_one_of_a_single_machine(site: Site, tmp_path: Path) -> None:
    site.run()
    with create(site.experiment, tmp_path / "here") as journal:
        carry_out(site.experiment, journal, FakeLaunch())
        folder = journal.folder
    def plan(record):
        return {t.block: (t.stage, t.workload, t.round, t.treatment, t.position) for t in record.trials}
    assert plan(site.record()) == plan(load_record(folder))


def test_a_stage_is_planned_from_what_the_one_before_brought_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, monkeypatch, FakeLaunch(noise=0.01), blocks=None, pilot_blocks=3, precision=0.02)
    assert site.run() == "finished"
    stages = Counter(t.stage for t in site.record().trials)
    assert stages["warmup"] == 2 and stages["pilot"] == 2 * 3 * 4 and stages["main"] > 0
    assert site.events(kinds.PLANNED)


@pytest.mark.parametrize(("nodes", "arrays"), [(0, [(2, 0), (6, 0)]), (2, [(2, 2)] * 2)])
def test_a_stage_is_one_array_of_no_more_jobs_than_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: int, arrays: list[tuple[int, int]]
) -> None:
    site = Site(tmp_path, monkeypatch, fleet={"nodes": nodes})
    site.engine.go_on = True
    site.run()
    assert site.engine.arrays == arrays


def test_jobs_that_end_before_all_is_done_are_followed_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job has time for one block only."""
    site = Site(tmp_path, monkeypatch, fleet={"nodes": 2})
    assert site.run() == "finished"
    complete(site)
    assert site.engine.arrays == [(2, 2)] * 4 and not site.events(kinds.REPEATED)


def test_a_node_runs_a_workload_once_uncounted_before_it_counts(site: Site) -> None:
    site.run()
    warm = {path.name for path in (site.room.folder / "warm").iterdir()}
    assert len(site.launch.calls) == len(site.record().trials) + len(warm) - 2  # the warm-up stage warmed two


def test_an_agent_that_dies_in_the_middle_of_a_block(site: Site) -> None:
    class Killed(BaseException):
        pass

    def dies(number: int, folder: Path) -> bool:
        if number != 3:
            return False
        launch = site.launch
        def counting(*words, **more):
            if len(list(folder.glob("trial-*"))) == 2:
                raise Killed
            return launch(*words, **more)
        with pytest.raises(Killed):
            carry_out_block(str(folder), counting)
        return True

    site.engine.mishap = dies
    assert site.run() == "finished"
    complete(site)
    assert len(site.events(kinds.REPEATED)) == 1 and "ended without a word" in site.events(kinds.REPEATED)[0]
    lost = [t for t in site.record().trials if not t.counted and t.stage == "main"]
    assert len(lost) == 2 and all(t.status == "ok" for t in lost), "what was measured is kept"


def test_a_record_that_is_cut_off_repeats_its_block(site: Site) -> None:
    def cut(number: int, folder: Path) -> bool:
        if number == 4:
            site.engine.run(folder, number)
            path = next(folder.glob("trial-*.json"))
            os.truncate(path, path.stat().st_size // 2)
        return number == 4

    site.engine.mishap = cut
    assert site.run() == "finished"
    complete(site)
    assert ["cut off or damaged" in text for text in site.events(kinds.REPEATED)] == [True]


@pytest.mark.parametrize("name", ["trial-0001.json", "series"])
def test_a_file_that_is_missing_repeats_its_block(site: Site, name: str) -> None:
    def lose(number: int, folder: Path) -> bool:
        if number == 4:
            site.engine.run(folder, number)
            shutil.rmtree(folder / name) if name == "series" else (folder / name).unlink()
        return number == 4

    site.engine.mishap = lose
    assert site.run() == "finished"
    complete(site)
    assert ["is missing" in text for text in site.events(kinds.REPEATED)] == [True]


def test_a_job_that_is_started_twice_runs_its_block_once(site: Site) -> None:
    def twice(number: int, folder: Path) -> bool:
        site.engine.run(folder, number)
        before = len(site.launch.calls)
        with pytest.raises(HeapyardError, match="was claimed before by n"):
            carry_out_block(str(folder), site.launch)
        assert len(site.launch.calls) == before
        return True

    site.engine.mishap = twice
    assert site.run() == "finished"
    complete(site)


def test_a_block_that_comes_back_twice_counts_once(site: Site, tmp_path: Path) -> None:
    """The controller ended after it had taken the trials in, and before it said so."""
    kept = tmp_path / "kept"
    def keep(number: int, folder: Path) -> bool:
        site.engine.run(folder, number)
        if number == 2:
            shutil.copytree(folder, kept)
        return True

    site.engine.mishap = keep
    site.run()
    complete(site)
    folder, before = kept, site.record()
    parcel, returned = read_parcel(folder), read_returned(folder)
    from heapyard.store import reopen

    with reopen(site.folder) as journal:
        assert journal.take_returned(parcel.errand.block, "n9", {}, returned.trials) == {}
    assert site.record().trials == before.trials


def test_another_controller_goes_on(site: Site) -> None:
    """Ended while blocks were out: some come back meanwhile, some run on, one was never submitted."""
    stop = threading.Event()
    def hold(number: int, folder: Path) -> bool:
        if number >= 2:
            site.engine.waiting[str(number)] = folder
            stop.set()
        return number >= 2

    site.engine.mishap = hold
    assert site.run(stop) == "interrupted"
    assert any("heapyard fleet cancel" in text for text in site.events(kinds.FLEET))
    waiting, site.engine.mishap = dict(site.engine.waiting), lambda number, folder: False
    assert len(waiting) == 6
    for number, folder in list(waiting.items())[:3]:
        site.engine.run(folder, int(number))
    site.engine.waiting = dict(list(waiting.items())[3:5])

    class Later(Watcher):
        def waits(self, away: Away) -> None:
            """Those that were queued run now."""
            for number, folder in list(site.engine.waiting.items()):
                site.engine.run(folder, int(number))
                del site.engine.waiting[number]

    calls = len(site.launch.calls)
    assert site.run(watcher=Later()) == "finished"
    complete(site)
    assert len(site.events(kinds.REPEATED)) == 1, "the one whose job nobody knows"
    assert len([c for c in site.launch.calls[calls:] if c]) <= 3 * 4 + 3, "what came back meanwhile did not run again"
    assert lease.holder_of(waiting["7"]).holder == lease.CONTROLLER, "its job would not begin any more"


def test_a_node_that_refuses_gets_no_more_blocks(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    real = __import__("heapyard.api.fleet.agent", fromlist=["fit"]).fit
    def fit(errand, parts, shared, here, node):
        if node == "n2":
            raise HeapyardError("n2 has another libc.so.6", remedy="Name nodes of one kind.")
        return real(errand, parts, shared, here, node)

    monkeypatch.setattr("heapyard.api.fleet.agent.fit", fit)
    assert site.run() == "finished"
    complete(site)
    assert site.engine.without == {"n2"}
    assert site.events(kinds.FLEET) == ["n2 gets no more blocks: n2 has another libc.so.6. Name nodes of one kind."]


def test_a_full_disk_is_told_and_its_block_runs_elsewhere(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from heapyard.api.fleet import agent

    real = agent.write_trial
    def full(folder, *words):
        if agent.node_name() == "n1":
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), str(folder))
        real(folder, *words)

    monkeypatch.setattr("heapyard.api.fleet.agent.node_name", lambda: os.environ["SLURMD_NODENAME"])
    monkeypatch.setattr("heapyard.api.fleet.agent.write_trial",
                        lambda folder, *words: full(folder, *words))
    assert site.run() == "finished"
    complete(site)
    assert any("no room left" in text and "quota" in text.lower() for text in site.events(kinds.FLEET))


def test_a_block_that_is_lost_again_and_again_ends_the_experiment(site: Site) -> None:
    site.engine.mishap, site.engine.words = lambda number, folder: True, "python: command not found"
    with pytest.raises(HeapyardError, match=r"lost or refused 3 times, .* the last in its log: python: command not found") as told:
        site.run()
    assert "heapyard resume" in (told.value.remedy or "")
    assert site.engine.cancelled


def test_a_time_limit_shorter_than_a_block_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeLaunch):
        def __call__(self, *words, **more):
            threading.Event().wait(0.02)
            return super().__call__(*words, **more)

    site = Site(tmp_path, monkeypatch, Slow(), fleet={"time_limit": 0.06})
    with pytest.raises(UsageError, match=r"is expected to take .* longer than the time limit of a job, 60 ms") as told:
        site.run()
    assert "--time-limit" in (told.value.remedy or "")


def test_guards_repeat_no_more_blocks_than_on_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, monkeypatch, FakeLaunch(trips=1000))
    assert site.run() == "finished"
    complete(site)
    assert len(site.events(kinds.REPEATED)) == 2  # a fifth of six, rounded up
    assert site.events(kinds.NOTED)


def test_what_failed_twice_is_not_launched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = FakeLaunch(faults={("one", "swift"): {}})
    site = Site(tmp_path, monkeypatch, launch, fleet={"nodes": 1}, blocks=5)
    site.engine.most = 1
    assert site.run() == "finished"
    assert launch.calls.count(("one", "swift")) == 2 and len(site.events(kinds.DROPPED)) == 1


def test_the_budget_is_the_sum_over_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    class Timed(FakeLaunch):
        def __call__(self, *words, **more):
            now[0] += 1.0
            return super().__call__(*words, **more)

    monkeypatch.setattr("heapyard.execute.loop.runner.time.monotonic", lambda: now[0])
    site = Site(tmp_path, monkeypatch, Timed(), programs=("one",), blocks=9, budget=14.0)
    site.engine.names = ["n1"]
    assert site.run() == "finished"
    assert len({t.block for t in site.record().trials if t.counted}) == 3  # of 4 s each, after 1 s to warm up
    assert site.events(kinds.BUDGET)


def test_a_clock_that_jumps_changes_no_duration(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = iter(range(10**9, 0, -(10**6)))
    monkeypatch.setattr("heapyard.api.fleet.agent.time.time", lambda: float(next(jumps)))
    assert site.run() == "finished"
    assert all(0 <= t.ended - t.started < 60 for t in site.record().trials)


def test_nothing_stays_of_a_block_whose_closing_record_is_missing(site: Site) -> None:
    """Its job ended well, and the record is gone: repeated, not believed."""
    def lose(number: int, folder: Path) -> bool:
        if number == 5:
            site.engine.run(folder, number)
            (folder / CLOSING).unlink()
        return number == 5

    site.engine.mishap = lose
    assert site.run() == "finished"
    complete(site)
    assert len(site.events(kinds.REPEATED)) == 1


def test_a_job_runs_block_after_block_and_those_that_find_none_end(site: Site) -> None:
    site.engine.go_on = True
    assert site.run() == "finished"
    complete(site)
    assert {t.node for t in site.record().trials if t.stage == "main"} == {"n3"}, "the first job of the stage ran all of them"
    assert not site.events(kinds.REPEATED)


def test_a_job_that_refuses_a_block_takes_no_other(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(errand, parts, shared, here, node):
        raise HeapyardError(f"{node} has another libc.so.6")

    site.engine.go_on = True
    refused = []
    def watch(number: int, folder: Path) -> bool:
        if errand_of(folder).block.stage == "main" and not refused:
            with monkeypatch.context() as patch:
                patch.setattr("heapyard.api.fleet.agent.fit", fit)
                site.engine.run(folder, number)
            refused.extend(path.parent for path in site.room.blocks.glob("*/lease"))
            return True
        return False

    site.engine.mishap = watch
    assert site.run() == "finished"
    complete(site)
    assert len(refused) == 1 and site.engine.without == {"n3"}


def errand_of(folder: Path):
    return read_parcel(folder).errand


def test_a_job_that_slurm_begins_again_gives_up_its_block_and_takes_another(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """scontrol requeue, or a node that failed: the same job, from the beginning, and it never looks as if it had ended."""
    class Killed(BaseException):
        pass

    def again(number: int, folder: Path) -> bool:
        if number != 3:
            return False
        launch, calls = site.launch, []
        def counting(*words, **more):
            calls.append(words)
            if len(calls) == 4:  # one to warm up, and two trials
                raise Killed
            return launch(*words, **more)
        monkeypatch.setenv("SLURMD_NODENAME", "n3")
        monkeypatch.setenv("SLURM_JOB_ID", "77")
        site.engine.waiting["77"] = folder
        with pytest.raises(Killed):
            work(str(folder), 600.0, counting)
        assert "77" in {lease.holder_of(path.parent).job for path in site.room.blocks.glob("*/lease")}
        monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
        assert work(str(folder), 600.0, launch) == "done"
        monkeypatch.delenv("SLURM_JOB_ID"), monkeypatch.delenv("SLURM_RESTART_COUNT")
        return True

    site.engine.mishap = again
    assert site.run() == "finished"
    complete(site)
    assert ["Slurm has begun the job again" in text for text in site.events(kinds.REPEATED)] == [True]
    assert len([t for t in site.record().trials if not t.counted and t.stage == "main"]) in (1, 2), "what was measured is kept"


def test_a_block_whose_job_was_put_back_into_the_queue_does_not_wait_for_it(site: Site) -> None:
    """Slurm begins a requeued job after two minutes; other nodes are free before."""
    def put_back(number: int, folder: Path) -> bool:
        if number == 3:
            lease.take(folder, "n3", "3", 0.0)
            site.engine.waiting["3"] = folder
        return number == 3

    site.engine.mishap, site.engine.why = put_back, "BeginTime"
    assert site.run() == "finished"
    complete(site)
    assert ["on n3, was put back into the queue" in text for text in site.events(kinds.REPEATED)] == [True]

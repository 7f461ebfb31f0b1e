# SPDX-License-Identifier: Apache-2.0
"""`heapyard merge`: experiments come together whatever the order, however often, and whoever is killed meanwhile."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from yard import FakeLaunch, experiment

from heapyard import store
from heapyard.execute.experiment import carry_out
from heapyard.store import database, merge
from heapyard.store.copies import join, read_copy
from heapyard.store.filesystem import network_type
from heapyard.store.records import plan_of


def begun(parent: Path, blocks: int = 3, launches: int = 0, **more: object) -> Path:
    """An experiment of two programs of which so many launches were carried out on the machine `first`."""
    exp = experiment(blocks=blocks, interleave="trials", **more)
    with store.create(exp, parent) as journal:
        journal.snapshot("start", {"host": "first"})
        _go(journal, launches)
        return journal.folder


def go_on(folder: Path, launches: int, host: str, seed: int = 1, trips: int = 0) -> Path:
    with store.reopen(folder) as journal:
        journal.snapshot("resumed", {"host": host})
        _go(journal, launches, seed, trips)
    return folder


def _go(journal: store.StoredJournal, launches: int, seed: int = 1, trips: int = 0) -> None:
    import threading

    ending = carry_out(
        journal.experiment, journal, FakeLaunch(stop_after=launches, seed=seed, trips=trips), stop=threading.Event(),
        scratch=journal.folder,
    )  # fmt: skip
    journal.set_status(ending)


def copied(folder: Path, to: Path) -> Path:
    to.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copytree(folder, to / folder.name))


def content(folder: Path) -> tuple[object, ...]:
    return read_copy(folder).content


def outcomes(sources: list[Path], into: Path) -> list[str]:
    return [m.outcome for m in merge(sources, into)]


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One experiment, cut short after its first block, that went on in three places, once with a repeated block."""
    base = tmp_path_factory.mktemp("copies")
    origin = begun(base / "origin", launches=7)
    apart = [copied(origin, base / name) for name in ("a", "b", "c")]
    time.sleep(0.02)
    go_on(apart[0], 9, "node-a", seed=2)
    go_on(apart[1], 13, "node-b", seed=3, trips=1)
    go_on(apart[2], 99, "first", seed=4)
    return [origin, *apart]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.randoms())
def test_joining_is_commutative_associative_and_idempotent(copies, chosen, random) -> None:
    parts = [read_copy(copies[n]) for n in chosen]
    shuffled = random.sample(parts, len(parts))

    def folded(those):  # type: ignore[no-untyped-def]
        found = those[0]
        for one in those[1:]:
            found = join(found, one)
        return found

    left, right = folded(parts), folded(shuffled)
    assert left.content == right.content and left.header["verdict"] == right.header["verdict"]
    assert join(left, right).content == left.content
    half = len(parts) // 2
    if half:
        assert join(folded(parts[:half]), folded(parts[half:])).content == left.content


def test_files_come_to_the_same_in_every_order_and_a_second_time_changes_nothing(copies: list[Path], tmp_path: Path) -> None:
    found = set()
    for number, order in enumerate(itertools.permutations(copies[1:])):
        into = tmp_path / str(number)
        assert outcomes(list(order), into)[0] == "new"
        folder = into / copies[0].name
        found.add(repr(sorted(map(repr, read_copy(folder).chains.items()))))
        file = folder / database.FILE_NAME
        before = file.stat()
        assert outcomes(list(order), into) == ["same"] * 3
        after = file.stat()
        assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns), "nothing new, nothing written"
    assert len(found) == 1


def test_every_block_counts_once_and_says_where_it_ran(copies: list[Path], tmp_path: Path) -> None:
    outcomes(copies, tmp_path)
    record = store.load_record(tmp_path / copies[0].name)
    done = [(b.workload, b.round) for b, status in plan_of(record.path) if status == "done" and b.stage != "warmup"]
    assert len(done) == len(set(done)) == 6 and record.status == "finished"
    assert [b.index for b, _ in plan_of(record.path)] == list(range(len(plan_of(record.path)))), "a resumed one counts on"
    counted = [t for t in record.trials if t.counted]
    assert len(counted) == 6 * 4 and {t.node for t in counted} <= {"first", "node-a", "node-b"}
    assert len({t.node for t in counted}) > 1 and set(record.nodes) >= {t.node for t in counted}
    assert all(store.read_series(record.path, t.series) for t in counted), "what the trials name came along"
    for block in {t.block for t in counted}:
        assert len({t.node for t in counted if t.block == block}) == 1


def test_of_two_runs_of_one_block_the_one_that_began_first_counts_whatever_it_measured(tmp_path: Path) -> None:
    origin = begun(tmp_path / "o")
    early, late = copied(origin, tmp_path / "early"), copied(origin, tmp_path / "late")
    go_on(early, 99, "slow", seed=2)
    time.sleep(0.02)
    go_on(late, 99, "fast", seed=3)
    walls = {t.id: t.metrics.get("wall") for t in store.load_record(early).trials}
    for order in ([early, late], [late, early]):
        into = tmp_path / order[0].parent.name / "all"
        last = list(merge(order, into))[-1]
        assert last.twice == 8  # two of them the warm-up
        assert {t.id: t.metrics.get("wall") for t in store.load_record(last.folder).trials} == walls


def test_one_machine_alone_stays_the_labs_own(tmp_path: Path) -> None:
    origin = begun(tmp_path / "o", launches=7)
    more = go_on(copied(origin, tmp_path / "more"), 99, "first")
    into = tmp_path / "all"
    assert outcomes([origin, more], into) == ["new", "extended"]
    record = store.load_record(into / origin.name)
    assert not record.nodes and {t.node for t in record.trials} == {""}
    ids = [(t.id, t.block, t.treatment) for t in store.load_record(more).trials if t.status == "ok" and t.block < 3]
    assert ids[:3] == [(t.id, t.block, t.treatment) for t in record.trials if t.status == "ok"][:3], "numbers stay"


def test_another_experiment_with_the_same_id_is_kept_apart_and_found_again(tmp_path: Path) -> None:
    one = begun(tmp_path / "a", launches=7)
    two = begun(tmp_path / "b", launches=7, seed=8).rename(tmp_path / "b" / one.name)
    into = tmp_path / "all"
    first, second = merge([one, two], into)
    assert (first.outcome, second.outcome) == ("new", "apart") and one.name in second.why
    assert outcomes([two, one], into) == ["same", "same"]
    assert {r.id for r in store.list_records(into)} == {one.name, second.id} and second.id.startswith(f"{one.name}-")
    assert content(second.folder)[-1] == content(two)[-1]


def test_what_goes_on_meanwhile_and_what_is_damaged_is_left_out_and_told(heapyard, tmp_path: Path) -> None:
    origin = begun(tmp_path / "o", launches=7)
    more = go_on(copied(origin, tmp_path / "more"), 99, "second")
    broken = copied(begun(tmp_path / "x", launches=2), tmp_path / "more")
    (broken / database.FILE_NAME).write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with store.reopen(origin):
        assert outcomes([more], tmp_path / "o") == ["busy"]
    said = heapyard("merge", str(tmp_path / "more"), "--into", str(tmp_path / "o"))
    assert said.code == 4 and "1 extended, 1 left out" in said.out and "damaged" in said.err and str(broken) in said.err
    assert f"{origin.name}: " in said.out and "taken over" in said.out
    assert store.load_record(origin).status == "finished"


def test_wrong_folders_are_one_sentence(heapyard, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder, complaint in (("none", "no such folder"), ("empty", "holds no experiment")):
        said = heapyard("merge", str(tmp_path / folder))
        assert said.code == 2 and complaint in said.err
    said = heapyard("merge", str(tmp_path / "empty"), "--into", str(tmp_path / "empty"))
    assert said.code == 2 and "--into" in said.err


def test_a_folder_that_cannot_be_written_is_one_sentence_with_the_remedy(heapyard, tmp_path: Path, monkeypatch) -> None:
    origin, into = begun(tmp_path / "o", launches=7), tmp_path / "into"
    into.mkdir()
    # Root may write anywhere but on a read-only file system, which access() tells like missing rights.
    monkeypatch.setattr(os, "access", lambda path, mode, **_: Path(path) != into or not mode & os.W_OK)
    said = heapyard("merge", str(origin), "--into", str(into))
    assert said.code == 4 and "cannot be stored there" in said.err and "another folder with --into" in said.err, said.err
    assert list(into.iterdir()) == []


def test_a_verdict_is_made_anew_of_all_blocks(heapyard, tmp_path: Path) -> None:
    origin = begun(tmp_path / "o", launches=7)
    more = go_on(copied(origin, tmp_path / "more"), 99, "first")
    assert heapyard("merge", str(origin), str(more), "--into", str(tmp_path / "all")).code == 0
    (listed,) = store.list_records(tmp_path / "all")
    assert listed.verdict and listed.done == 6


def test_files_of_older_versions_join(tmp_path: Path) -> None:
    origin = begun(tmp_path / "o", launches=7)
    more = go_on(copied(origin, tmp_path / "more"), 99, "first")
    with sqlite3.connect(more / database.FILE_NAME) as old:
        old.executescript("ALTER TABLE block DROP COLUMN node; DROP TABLE node; PRAGMA user_version=2;")
    old.close()
    assert outcomes([more], tmp_path / "o") == ["extended"]
    assert store.load_record(origin).status == "finished"


MERGE = """
import sys
from pathlib import Path
from heapyard.store import merge
into, *sources = map(Path, sys.argv[1:])
print([m.outcome for m in merge(sources, into)])
"""


def merging(into: Path, *sources: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", "-c", MERGE, str(into), *map(str, sources)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_many_writers_at_once_lose_and_double_nothing(copies: list[Path], tmp_path: Path) -> None:
    into, alone = tmp_path / "all", tmp_path / "alone"
    running = [merging(into, one, other) for one, other in itertools.permutations(copies[1:], 2)][:4]
    for process in running:
        said, complaint = process.communicate(timeout=60)
        assert process.returncode == 0 and "busy" not in said and "unreadable" not in said, complaint + said
    outcomes(copies[1:], alone)
    assert outcomes(copies, into) == ["same"] * 4
    assert content(into / copies[0].name)[-1] == content(alone / copies[0].name)[-1]


KILLED = """
import os, signal, sys
from pathlib import Path
left, series = int(sys.argv[3]), 0
def step(event, arguments):
    global left, series
    series += "/series/" in str(arguments[:1])
    if "/series/" in str(arguments[:1]) and series > 4:
        return  # one series is as good as all
    if event in ("os.rename", "shutil.copyfile", "os.mkdir", "os.remove", "sqlite3.connect"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
from heapyard.store import merge
sys.addaudithook(step)
list(merge([Path(sys.argv[2])], Path(sys.argv[1])))
"""


@pytest.mark.parametrize("new", [False, True])
def test_whoever_is_killed_leaves_the_state_before_or_after(copies: list[Path], tmp_path: Path, new: bool) -> None:
    """Killed before each change of the disk in turn: forked children, so that every step can be had."""
    states = set()
    there, arriving = read_copy(copies[1]), read_copy(copies[3])
    wanted = (arriving if new else join(there, arriving)).chains
    for left in itertools.count():
        into = tmp_path / str(left)
        if not new:
            copied(copies[1], into)
        child = os.fork()
        if not child:
            try:
                sys.argv = ["", str(into), str(copies[3]), str(left)]
                exec(KILLED, {})
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        folder = into / copies[3].name
        whole = (folder / database.FILE_NAME).exists()
        states.add(len([1 for _, s in plan_of(folder) if s == "done"]) if whole else 0)
        assert outcomes([copies[3]], into)[0] in ("same", "extended", "new"), "the next one finds nothing in its way"
        assert content(folder)[-1] == wanted
        if not os.WIFSIGNALED(status):
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
    assert left > 3 and len(states) == 2, states


TABLE = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
40 21 {device} / /mnt/lab\\040results rw,relatime shared:9 - {kind} server:/export rw,vers=4.2
"""


@pytest.mark.parametrize(("kind", "found"), [("nfs4", "nfs4"), ("fuse.sshfs", "fuse.sshfs"), ("ext4", ""), ("tmpfs", "")])
def test_a_network_file_system_is_known_by_the_kernels_table(tmp_path: Path, kind: str, found: str) -> None:
    device = os.stat(tmp_path).st_dev
    table = tmp_path / "mountinfo"
    table.write_text(TABLE.format(device=f"{os.major(device)}:{os.minor(device)}", kind=kind))
    assert network_type(tmp_path, table) == found
    assert network_type(tmp_path, tmp_path / "none") == ""


def test_on_a_network_file_system_there_is_no_shared_memory_beside_the_file(
    heapyard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("database", "locks"):
        monkeypatch.setattr(f"heapyard.store.{module}.network_type", lambda path: "nfs4")
    monkeypatch.setattr("heapyard.store.network_type", lambda path: "nfs4")
    exp = experiment(blocks=1, interleave="trials")
    with store.create(exp, tmp_path / "net") as journal:
        carry_out(exp, journal, FakeLaunch(), scratch=tmp_path)
        assert {p.name for p in journal.folder.iterdir()} <= {database.FILE_NAME, "series", "results"}
        assert store.load_record(journal.folder).trials, "a reader beside the writer"
        folder = journal.folder
    monkeypatch.setenv("HEAPYARD_RESULTS", str(tmp_path / "net"))
    assert "lies on nfs4" in " ".join(heapyard("doctor", "--no-noise").out.split())
    said = heapyard("merge", str(folder), "--into", str(tmp_path / "there"))
    assert said.code == 0 and "lies on nfs4" in said.err and not (tmp_path / "there" / ".heapyard-merge").exists()
    (tmp_path / "there" / ".heapyard-merge").write_text("another-host")
    said = heapyard("merge", str(folder), "--into", str(tmp_path / "there"))
    assert said.code == 4 and "another-host" in said.err and "remove the file" in said.err


def test_after_a_kill_on_a_network_file_system_readers_still_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback journal that was left behind must be rolled back before anybody reads."""
    monkeypatch.setattr("heapyard.store.database.network_type", lambda path: "nfs4")
    folder = begun(tmp_path, launches=7)
    before = len(store.load_record(folder).trials)
    child = os.fork()
    if not child:
        connection = database.open_to_write(folder / database.FILE_NAME)
        connection.execute("PRAGMA cache_size=1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE trial SET command_line = hex(randomblob(20000))")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert (folder / f"{database.FILE_NAME}-journal").exists()
    assert len(store.load_record(folder).trials) == before

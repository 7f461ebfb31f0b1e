# SPDX-License-Identifier: Apache-2.0
"""The parts of `soak --load`: the record, the keeper of a server, standing still, who runs beside whom, words."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from heapyard.api.hours import folder_of, period_of
from heapyard.catalog.program_command import program_from_command
from heapyard.catalog.server_command import Load
from heapyard.cli import main
from heapyard.execute.hours import kept as kept_module
from heapyard.execute.hours.kept import Kept, end_leftovers
from heapyard.execute.hours.memory import memory_below
from heapyard.execute.hours.notebook import Notebook, read_notebook
from heapyard.execute.hours.sharing import Taken, decide, has_room
from heapyard.execute.launcher import Launch
from heapyard.model.errors import HeapyardError
from heapyard.model.hours import IN_TURNS, SIDE_BY_SIDE, Hour, HoursAnswer, Noted, Pass, ServerAnswer, Slope, latency_of
from heapyard.report.hours_words import hour_name, per_hour, percent_per_hour, reach_of, sentences
from heapyard.report.load_words import omission
from heapyard.store.locks import ExperimentLock

GIB, MIB = 1 << 30, 1 << 20


@pytest.mark.parametrize(("words", "sentence"), [
    ("-- /bin/true", "a command after -- is a server, whose load --load gives"),
    ("--load true{port}", "--load is for your own server, which goes after --"),
    ("--profile glibc", "--profile is for a server, whose load --load gives"),
    ("--ready x glibc", "--ready is for a server, whose load --load gives"),
    ("glibc bfm --port 80 --load true -- /bin/true", "--port is one port"),
    ("--only x --load true{port} -- /bin/true", "--only is for test suites"),
    ("--settle 1s --load true{port} -- /bin/true", "--settle is for compare"),
    ("--rate 50 --load true{port} -- /bin/true {port}", "--rate 50 needs a load with {rate} in it"),
    ("--load true{port}{rate} -- /bin/true {port}", "has {rate}, and nothing says what it is"),
    ("--in-turns --side-by-side --load true{port} -- /bin/true", "--side-by-side and --in-turns exclude each other"),
    ("--load true{port} -- ./no_such_server", "there is no file './no_such_server'"),
])  # fmt: skip
def test_what_cannot_be_meant_is_said_in_one_sentence(words: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.run(["soak", *words.split()])
    assert ended.value.code == 2 and sentence in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------ the record


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path / "notes.jsonl")
    notebook.write("command", seconds=60.0)
    notebook.write("mode", mode=IN_TURNS, why="so")
    notebook.write("begin", "glibc", s=1, at=0.0, fresh=True, pid=77, traces="")
    notebook.write("sample", "glibc", s=1, at=1.5, m=[10, 8, 12, 2], cpu=0.5)
    notebook.write("pass", "glibc", s=1, at=2.5, metrics={"request_rate": 5}, **{"from": 0.5})
    notebook.write("note", "glibc", s=1, at=2.6, text="careful")
    notebook.write("end", "glibc", s=1, at=3.0, why="with exit code 3")
    notebook.close()
    found = read_notebook(tmp_path / "notes.jsonl")
    server = found.servers["glibc"]
    assert (found.seconds, found.mode, found.why, found.complete) == (60.0, IN_TURNS, "so", False)
    assert (server.samples[0].rss, server.samples[0].peak, server.samples[0].processes) == (10, 12, 2)
    assert server.passes == [Pass(1, 0.5, 2.5, {"request_rate": 5.0})] and server.seconds == 2.5
    assert server.notes == [(2.6, "careful")] and server.stretches[0].ended == "with exit code 3"


def test_a_line_that_was_cut_off_costs_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    whole = '{"k":"sample","t":1,"a":"x","s":1,"at":1,"m":[1,1,1,1],"cpu":0}\n'
    path.write_text(whole + whole[:30])
    notebook = Notebook(path)
    notebook.write("sample", "x", s=1, at=2, m=[2, 2, 2, 1], cpu=0)
    notebook.close()
    assert [sample.rss for sample in read_notebook(path).servers["x"].samples] == [1, 2]
    assert read_notebook(tmp_path / "absent").servers == {}


# -------------------------------------------------------------------------------------------------- a server and its keeper


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Kept]]:
    """Starts a shell script as a server; whatever a test leaves ends with it."""

    def begin(script: str, patience: float = 60.0, command: tuple[str, ...] = ()) -> Kept:
        folder = tmp_path / "it" / f"launch{len(list((tmp_path / 'it').glob('*'))) + 1}"
        folder.mkdir(parents=True)
        launch = Launch(command or ("/bin/sh", "-c", script), {"PATH": os.environ["PATH"]}, folder / "json", folder / "out",
                        folder / "err", folder)
        return Kept.start(launch, folder, tmp_path, patience)

    (tmp_path / "it").mkdir()
    yield begin
    end_leftovers(tmp_path)


def states(kept: Kept) -> str:
    from heapyard.execute.server.work import below

    found = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in below(kept.keeper)]
    return "".join(sorted(found))


def test_a_server_and_what_it_starts_stand_still_and_go_on(start: Callable[..., Kept]) -> None:
    kept = start("sleep 60 & setsid sleep 60 & while :; do :; done")
    until = time.monotonic() + 20
    while len(states(kept)) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert kept.hold() and states(kept) == "TTT"
    memory = memory_below(kept.keeper)
    assert memory.processes == 3 and memory.rss >= memory.anonymous > 0 and memory.peak >= memory.rss
    kept.let_go()
    assert "T" not in states(kept)
    kept.kill()
    assert kept.wait(5.0) and kept.close() == "as it was asked to"


@pytest.mark.parametrize(("script", "words"), [("exit 3", "with exit code 3"), ("kill -SEGV $$", "by signal 11 (SIGSEGV)")])
def test_how_a_server_ended_is_known(start: Callable[..., Kept], script: str, words: str) -> None:
    kept = start(f"read line </dev/zero & sleep 0.1; {script}")
    assert kept.wait(20.0) and kept.close() == words


def test_a_server_that_cannot_be_started_is_told(start: Callable[..., Kept]) -> None:
    with pytest.raises(HeapyardError, match="the server cannot be started: /no/such/program: No such file"):
        start("", command=("/no/such/program",))


def test_a_server_is_found_again_only_if_it_is_the_same(start: Callable[..., Kept], tmp_path: Path) -> None:
    kept = start("sleep 60; true")
    folder = tmp_path / "it" / "launch1"
    found = Kept.find(kept.launch, folder)
    assert found is not None and found.pid == kept.pid
    found.close()
    told = json.loads((folder / "server.json").read_text())
    for change in ({"began": 1}, {"keeper_began": 1}, {"boot": "another"}):
        (folder / "server.json").write_text(json.dumps({**told, **change}))
        assert Kept.find(kept.launch, folder) is None
    (folder / "server.json").write_text(json.dumps(told))
    kept.signal(signal.SIGKILL)
    assert kept.wait(20.0) and Kept.find(kept.launch, folder) is None
    kept.close()


def test_a_keeper_ends_a_server_that_nobody_comes_back_to(start: Callable[..., Kept], tmp_path: Path) -> None:
    lock = ExperimentLock(tmp_path)
    kept = start("trap '' TERM; sleep 60 & wait", patience=0.0)
    assert not kept.wait(1.5)
    lock.release()
    assert kept.wait(20.0)
    assert kept.close() == f"by its keeper, since no heapyard came back within {kept_module.PATIENCE / 60:g} min"


# ------------------------------------------------------------------------------------------------------- beside each other


@pytest.mark.parametrize(("taken", "mode", "word"), [
    ([Taken(0.5, 100 * MIB)] * 2, SIDE_BY_SIDE, "1.0 processors busy"),
    ([Taken(0.8, 100 * MIB)] * 2, IN_TURNS, "at most 70% of the processors"),
    ([Taken(0.1, 600 * MIB)] * 2, IN_TURNS, "4 times their memory"),
])  # fmt: skip
def test_what_servers_take_decides(taken: list[Taken], mode: str, word: str) -> None:
    found, why = decide(taken, 2, 4 * GIB)
    assert found == mode and word in why


def test_servers_without_room_are_refused() -> None:
    assert "no room" in has_room([Taken(0.1, 3 * GIB)] * 2, GIB) and not has_room([Taken(0.1, GIB)], GIB)


# ---------------------------------------------------------------------------------------------------------------- words


def slope(value: float, half: float, level: float = 100.0 * MIB, seconds: float = 3600.0) -> Slope:
    return Slope(value / 3600, half / 3600, level, seconds, 0.0)


@pytest.mark.parametrize(("given", "text", "motion"), [
    (slope(3.1 * MIB, 0.4 * MIB), "+3.10 ± 0.40 MiB/h", "grows"),
    (slope(-30 * MIB, 12 * MIB), "-30 ± 12 MiB/h", "shrinks"),
    (slope(0.01 * MIB, 1.5 * MIB), "0.0 ± 1.5 MiB/h", "steady"),
    (slope(1 * MIB, 20 * MIB), "+1 ± 20 MiB/h", "undecided"),
    (slope(0, 0), "0 ± 0 B/h", "steady"),
])  # fmt: skip
def test_slopes_in_words(given: Slope, text: str, motion: str) -> None:
    assert per_hour(given) == text
    assert given.motion == motion


def test_a_drift_that_is_not_known_is_not_shown() -> None:
    assert percent_per_hour(slope(2, 1, level=100)) == "+2.0 ± 1.0 %/h"
    assert percent_per_hour(slope(2, 60, level=100)) == "" and percent_per_hour(None) == ""


def test_rows_are_hours_or_tenths() -> None:
    assert period_of(8 * 3600) == 3600 and period_of(600) == 60
    assert hour_name(3600, 7200, 3600) == "1 to 2 h" and hour_name(60, 120, 60) == "1 to 2 min"
    assert hour_name(0, 1.5, 1.5) == "0 to 1.5 s"
    hours = tuple(Hour(n, n + 1, size, size, None, None) for n, size in enumerate((900.0 * MIB, 2.0 * GIB)))
    assert reach_of(ServerAnswer(Noted("x"), hours)) == "900 MiB → 2 GiB"


def test_which_response_stands_for_latency() -> None:
    passes = [Pass(1, 0, 1, {"latency_mean": 1, "latency_p95": 2, "queue": 3})]
    assert latency_of(passes) == "latency_p95" and latency_of(passes, "queue") == "queue" and latency_of(passes, "x") == ""
    assert latency_of([Pass(1, 0, 1, {"pass_time": 1})]) == "pass_time" and latency_of([]) == ""


def test_a_process_that_ends_while_it_is_looked_at_has_no_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is there, and gone when it is read."""
    from heapyard.execute.server.work import below

    def gone(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(os, "scandir", gone)
    monkeypatch.setattr(os, "listdir", gone)
    assert below(os.getpid()) == []


@pytest.mark.parametrize(("load", "latency", "told"), [
    ("ab -n 100 http://127.0.0.1:{port}/", "latency_p99", "ab waits for an answer before it asks again"),
    ("wrk -L http://127.0.0.1:{port}/", "latency_p99", "wrk waits for an answer before it asks again"),
    ("vegeta attack -rate=50 | vegeta report", "latency_p99", ""),
    ("pgbench --rate=50 -T 1", "latency_mean", ""),
    ("ab -n 100 http://127.0.0.1:{port}/", "", ""),
    ("./client", "pass_time", ""),
])  # fmt: skip
def test_a_load_that_waits_for_answers_is_named_as_in_compare(load: str, latency: str, told: str) -> None:
    found = sentences(HoursAnswer("server", (load, load), (), 60, 60, "", "", latency, True))
    assert [text for text in found if "waits" in text] == ([omission(load.split()[0])] if told else [])
    assert not told or found[-1].startswith(told)


def test_the_rate_of_a_soak_is_shared_by_its_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAPYARD_RESULTS", str(tmp_path))
    load = Load(("true -R {rate} {port}", "true -R{rate}"), rate=100)
    folder = folder_of(program_from_command(["true", "{port}"], load=load), load, [], False)
    assert json.loads((folder / "run.json").read_text())["loads"] == ["true -R 50 {port}", "true -R50"]
    faster = replace(load, rate=200)
    assert folder_of(program_from_command(["true", "{port}"], load=faster), faster, [], False) != folder

# SPDX-License-Identifier: Apache-2.0
"""One trial, with real programs and the native launcher: what counts, what fails and how it is told."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import heapyard.execute.trial
from heapyard.catalog.allocators import find_allocators
from heapyard.execute.guards import judge
from heapyard.execute.trial import answer_digest, run_trial
from heapyard.model import places
from heapyard.model.allocator import Allocator
from heapyard.model.errors import UsageError
from heapyard.model.experiment import Settings, Treatment, TrialOutcome
from heapyard.model.program import Answer, Program

SETTINGS = Settings(timeout=20.0)
GLIBC = find_allocators(["glibc"])[0]


def shim(name: str) -> Allocator:
    """A test library as an allocator."""
    return replace(GLIBC, name=name, library=places.native(f"lib{name}.so"), sha256="")


def program(*command: str, **fields: object) -> Program:
    return Program(name=Path(command[0]).name, title="", command=command, **fields)  # type: ignore[arg-type]


def shell(script: str, **fields: object) -> Program:
    return program("/bin/sh", "-c", script, literal=True, **fields)


def trial(
    tmp_path: Path,
    what: Program,
    allocator: Allocator = GLIBC,
    settings: Settings = SETTINGS,
    *,
    levels: dict[str, str] | None = None,
    stop: threading.Event | None = None,
) -> TrialOutcome:
    folder = tmp_path / f"trial{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    return run_trial(
        what, Treatment(allocator.name, allocator, levels or {}), settings, pad=17, folder=folder, stop=stop
    )


def test_a_program_that_ends_well_is_measured(tmp_path: Path) -> None:
    outcome = trial(tmp_path, program(str(places.native("mallocs")), "20000", "0"))
    assert outcome.status == "ok", outcome.reason
    m = outcome.metrics
    assert m["wall"] > 0 and m["cpu"] == pytest.approx(m["user"] + m["sys"])
    assert 0 < m["mean_rss"] <= m["tree_peak_rss"] and m["peak_rss"] <= m["tree_peak_rss"]
    assert m["processes"] == 1 and outcome.provider.endswith("libc.so.6")
    assert all(rss > 0 for _, rss, _ in outcome.series)


def test_a_program_that_takes_its_time_is_seen_while_it_runs(tmp_path: Path) -> None:
    """One of a few milliseconds may end before the sampler has had its turn."""
    assert trial(tmp_path, program("/bin/sleep", "1")).series


@pytest.mark.parametrize("mib", [8, 64])
def test_memory_is_what_the_program_holds(tmp_path: Path, mib: int) -> None:
    m = trial(tmp_path, program(str(places.native("known_rss")), str(mib), "400")).metrics
    assert m["peak_rss"] == pytest.approx(mib * 2**20, abs=3 * 2**20)  # itself, libc, stack
    assert m["mean_rss"] == pytest.approx(m["peak_rss"], rel=0.25)


def test_peak_memory_of_a_small_program_is_not_that_of_the_lab(tmp_path: Path) -> None:
    """exec folds the peak of the forking process into the program's; Python's own would be tens of MiB."""
    ballast = bytearray(64 << 20)
    assert trial(tmp_path, program("/bin/true")).metrics["peak_rss"] < 4 << 20
    del ballast


def test_peak_memory_is_not_that_of_an_earlier_child(tmp_path: Path) -> None:
    trial(tmp_path, program(str(places.native("known_rss")), "100", "10"))
    assert trial(tmp_path, program("/bin/true")).metrics["peak_rss"] < 4 << 20


def test_the_whole_tree_is_counted(tmp_path: Path) -> None:
    outcome = trial(tmp_path, shell("sleep 0.2 & sleep 0.2 & wait"))
    assert outcome.metrics["processes"] >= 3
    assert outcome.metrics["tree_peak_rss"] > outcome.metrics["peak_rss"]


# ---------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("script", "failure", "words"),
    [
        ("exit 3", "exit", "ended with exit code 3 instead of 0"),
        ("echo no such ghost >&2; exit 4", "exit", "it said: no such ghost"),
        ("kill -SEGV $$", "signal", "was killed by signal 11 (SIGSEGV)"),
        ("kill -KILL $$", "signal", "was killed by signal 9 (SIGKILL)"),
    ],
)
def test_failures_are_told_apart(tmp_path: Path, script: str, failure: str, words: str) -> None:
    outcome = trial(tmp_path, shell(script))
    assert (outcome.status, outcome.failure) == ("failed", failure)
    assert words in outcome.reason and "\n" not in outcome.reason


def test_a_program_that_cannot_start_is_not_an_exit_code_127(tmp_path: Path) -> None:
    outcome = trial(tmp_path, program(str(tmp_path / "absent")))
    assert outcome.failure == "cannot start" and "No such file or directory" in outcome.reason
    assert trial(tmp_path, shell("exit 127")).failure == "exit"


def test_a_program_that_never_ends_is_ended_with_all_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    script = f"trap '' TERM; (trap '' TERM; while :; do touch {mark}; sleep 0.05; done) & wait"
    outcome = trial(tmp_path, shell(script), settings=replace(SETTINGS, timeout=0.3))
    assert outcome.failure == "timeout" and "did not end within 0.3 s" in outcome.reason
    mark.unlink(missing_ok=True)
    time.sleep(0.3)
    assert not mark.exists()


def test_what_outlives_the_program_is_ended_and_counted(tmp_path: Path) -> None:
    outcome = trial(tmp_path, shell("setsid sleep 60 & exit 0"))
    assert outcome.status == "ok" and outcome.detail["stragglers"] == 1


def test_stop_ends_the_trial(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    outcome = trial(tmp_path, program("/bin/sleep", "30"), stop=stop)
    assert outcome.status == "interrupted"


def test_a_killed_launcher_is_an_outcome_and_leaves_nothing_running(tmp_path: Path) -> None:
    name = f"sleep-{os.getpid()}"
    shutil.copy("/bin/sleep", tmp_path / name)

    def kill() -> None:
        launchers = subprocess.run(
            ["pgrep", "-f", f"{places.native('trial')}.*{name}"], capture_output=True, text=True
        ).stdout.split()
        for pid in launchers:
            os.kill(int(pid), signal.SIGKILL)

    threading.Timer(0.4, kill).start()
    outcome = trial(tmp_path, program(str(tmp_path / name), "30"))
    assert (outcome.status, outcome.failure) == ("failed", "cannot start")
    assert "left no result" in outcome.reason
    time.sleep(0.1)
    assert subprocess.run(["pgrep", "-r", "R,S,D", "-x", name[:15]], capture_output=True).returncode == 1


# ---------------------------------------------------------------------------------------------- proof of injection


def test_every_installed_allocator_is_proven_in_a_program_that_is_not_position_independent(tmp_path: Path) -> None:
    """Such a program answers for imported functions with its own stubs; the proof must see through them."""
    what = program("/usr/bin/python3", "-I", "-S", "-c", "print(sum(range(1000)))", env={"PYTHONMALLOC": "malloc"})
    from heapyard.catalog.allocators import installed_allocators

    for allocator in installed_allocators():
        outcome = trial(tmp_path, what, allocator)
        assert outcome.status == "ok", outcome.reason
        assert outcome.provider == str(allocator.library.resolve())


def test_a_static_program_is_never_a_result(tmp_path: Path) -> None:
    source = tmp_path / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-static", str(source), "-o", str(tmp_path / "static")], check=True)
    outcome = trial(tmp_path, program(str(tmp_path / "static")))
    assert outcome.failure == "not injected" and "ignores LD_PRELOAD" in outcome.reason


def test_a_library_without_malloc_is_never_a_result(tmp_path: Path) -> None:
    outcome = trial(tmp_path, program("/bin/true"), shim("nomalloc"))
    assert (
        outcome.failure == "not injected"
        and "was served by" in outcome.reason
        and "not by libnomalloc.so" in outcome.reason
    )


def test_a_preload_that_the_linker_ignores_is_never_a_result(tmp_path: Path) -> None:
    garbage = tmp_path / "libgarbage.so"
    garbage.write_bytes(b"not a library at all")
    for library in (garbage, tmp_path / "absent.so"):
        outcome = trial(tmp_path, program("/bin/true"), replace(GLIBC, name="x", library=library))
        assert outcome.failure == "not injected", outcome


def test_a_program_with_a_malloc_of_its_own_is_never_a_result(tmp_path: Path) -> None:
    outcome = trial(tmp_path, program(str(places.native("own_malloc"))))
    assert outcome.failure == "not injected" and "(its own)" in outcome.reason


def test_a_child_with_a_cleaned_environment_is_noticed(tmp_path: Path) -> None:
    outcome = trial(tmp_path, shell("env -i /bin/sleep 0.5"), shim("plain"))
    assert (
        outcome.failure == "not injected"
        and "(sleep), started by the program, ran without libplain.so" in outcome.reason
    )


def test_system_leaves_the_program_alone_and_says_what_served_it(tmp_path: Path) -> None:
    system = find_allocators(["system"])[0]
    assert trial(tmp_path, program("/bin/true"), system).provider.endswith("libc.so.6")
    own = trial(tmp_path, program(str(places.native("own_malloc"))), system)
    assert own.status == "ok" and own.provider.endswith("own_malloc")


# ---------------------------------------------------------------------------------------------- environment and answers


def test_options_factors_and_padding_reach_the_program(tmp_path: Path) -> None:
    allocator = find_allocators(["glibc:tcache=0"])[0]
    what = shell(
        "env > env.txt; pwd > pwd.txt; nproc > nproc.txt; grep THP_enabled /proc/self/status > thp.txt",
        answer=Answer(files=("env.txt",)),
    )
    folder = tmp_path / "here"
    folder.mkdir()
    levels = {"env.COLOUR": "blue and green", "thp": "never", "cpus": "0"}
    outcome = run_trial(what, Treatment("t", allocator, levels), SETTINGS, pad=100, folder=folder)
    assert outcome.status == "ok", outcome.reason
    found = dict(line.split("=", 1) for line in (folder / "dir/env.txt").read_text().splitlines())
    assert found["COLOUR"] == "blue and green" and found["HEAPYARD_PAD"] == "x" * 100
    assert "glibc.malloc.tcache_count=0" in found["GLIBC_TUNABLES"]
    assert found["HOME"] == (folder / "dir/pwd.txt").read_text().strip() == str(folder / "dir")
    assert (folder / "dir/nproc.txt").read_text().strip() == "1"
    assert (folder / "dir/thp.txt").read_text().split()[-1] == "0"
    assert "HEAPYARD" not in outcome.command_line and "COLOUR='blue and green'" in outcome.command_line


@pytest.mark.parametrize("level, name", [("sampled", "glibc"), ("sampled", "scalloc-sampled"), ("exact", "scalloc"),
                                         ("pages", "bfm"), ("exact", "bfm")])
def test_a_traced_treatment_is_served_by_its_allocator_and_leaves_a_trace(tmp_path: Path, level: str, name: str) -> None:
    [allocator] = find_allocators([name])
    what = program(str(places.native("mallocs")), "20000", "0")
    traced = trial(tmp_path, what, allocator, levels={"tracer": level})
    plain = trial(tmp_path, what, allocator, levels={"tracer": "off"})
    assert traced.status == plain.status == "ok", traced.reason
    assert traced.provider == plain.provider and (name == "glibc" or Path(plain.provider) == allocator.library)
    assert traced.metrics["trace_bytes"] > 100 and traced.metrics["collector_rss"] > 1 << 20
    assert traced.metrics["collector_cpu"] > 0
    assert plain.metrics["trace_bytes"] == plain.metrics["collector_rss"] == plain.metrics["collector_cpu"] == 0
    assert "trace_bytes" not in trial(tmp_path, what, allocator).metrics
    left = subprocess.run(["pgrep", "heapyard-collec"], capture_output=True, text=True).stdout.split()
    assert not any(tmp_path.name in Path(f"/proc/{pid}/cmdline").read_text() for pid in left)


def test_the_collector_is_no_other_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a program that allocates without pause it is busy half of the time, which no block is to be repeated for."""
    own: list[float] = []
    monkeypatch.setattr(heapyard.execute.trial, "judge", lambda before, after, cpu: own.append(cpu) or judge(before, after, cpu))
    traced = trial(tmp_path, program(str(places.native("mallocs")), "2000000", "0"), levels={"tracer": "exact"})
    assert traced.status == "ok" and traced.metrics["collector_cpu"] > 0, traced.reason
    assert own == [pytest.approx(traced.metrics["user"] + traced.metrics["sys"] + traced.metrics["collector_cpu"])]


def test_a_checkout_may_lie_in_a_folder_with_blanks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LD_PRELOAD knows no way to quote them: the witness, and with it every proof, would be lost."""
    state = tmp_path / "my state: new"
    state.mkdir()
    (state / "build").symlink_to(places.state() / "build")
    plain = shim("plain")
    monkeypatch.setenv("HEAPYARD_STATE", str(state))
    for allocator in (plain, shim("plain")):
        outcome = trial(tmp_path, program("/bin/true"), allocator)
        assert outcome.status == "ok", outcome.reason
        assert outcome.provider == str(plain.library.resolve())  # type: ignore[union-attr]


def test_the_command_line_can_be_pasted(tmp_path: Path) -> None:
    given = tmp_path / "it's input"
    given.write_text("abc")
    outcome = trial(tmp_path, program("/usr/bin/tr", "a-c", "x'z", stdin=given), shim("plain"))
    again = subprocess.run(outcome.command_line, shell=True, capture_output=True, text=True)
    assert again.stdout.startswith("x") and again.returncode == 0


def test_braces_of_the_users_own_command_stay(tmp_path: Path) -> None:
    outcome = trial(tmp_path, program("/bin/echo", "{dir} {port}", literal=True, answer=Answer(output="consistent")))
    expected = program("/bin/echo", "x", literal=True)
    assert (
        outcome.answer and outcome.answer == trial(tmp_path, program("/bin/echo", "{dir} {port}", literal=True)).answer
    )
    assert outcome.answer != trial(tmp_path, expected).answer


def test_a_wrong_answer_is_a_failure(tmp_path: Path) -> None:
    right = trial(tmp_path, program("/bin/echo", "four"))
    recorded = program("/bin/echo", "four", answer=Answer(output="same", digest=right.answer))
    assert trial(tmp_path, recorded).status == "ok"
    wrong = trial(tmp_path, replace(recorded, command=("/bin/echo", "five")))
    assert (wrong.status, wrong.failure) == ("failed", "wrong answer")


def test_answer_files_count_and_may_be_missing(tmp_path: Path) -> None:
    answer = Answer(files=("out",))
    a, b, c = (trial(tmp_path, shell(s, answer=answer)).answer for s in ("echo 1 > out", "echo 2 > out", ":"))
    assert len({a, b, c}) == 3
    assert trial(tmp_path, shell(":", answer=Answer(output="ignore"))).answer == ""
    assert answer_digest.__doc__


# ---------------------------------------------------------------------------------------------- preflight


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("crash_load", "crashes when loaded into /bin/true (signal 11, SIGSEGV)"),
        ("nomalloc", "malloc was served by"),
    ],
)
def test_a_library_that_cannot_work_is_refused_before_the_experiment(name: str, words: str) -> None:
    from heapyard.execute.preflight import check

    with pytest.raises(UsageError, match="cannot be used") as caught:
        check([Treatment(name, shim(name))], SETTINGS)
    assert words in caught.value.message


def test_cpus_that_do_not_exist_are_refused() -> None:
    from heapyard.execute.preflight import check

    with pytest.raises(UsageError, match="there is no CPU 4711"):
        check([Treatment("glibc", GLIBC)], replace(SETTINGS, cpus=(0, 4711)))


def test_counts_of_separate_launches(tmp_path: Path) -> None:
    from heapyard.execute.counting import count_instructions, count_syscalls

    folders = [tmp_path / name for name in "abcd"]
    for folder in folders:
        folder.mkdir()
    small, large = (program(str(places.native("mallocs")), n, "0") for n in ("1000", "101000"))
    glibc = Treatment("glibc", GLIBC)
    calls = count_syscalls(small, glibc, SETTINGS, folders[0])
    assert calls["mmap_calls"] > 0 and set(calls) == {f"{n}_calls" for n in ("mmap", "munmap", "madvise", "brk")}
    few, many = (
        count_instructions(p, glibc, SETTINGS, f)["instructions"] for p, f in ((small, folders[1]), (large, folders[2]))
    )
    assert many - few > 100_000 * 50  # malloc, write and free of 100,000 blocks

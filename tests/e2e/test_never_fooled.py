# SPDX-License-Identifier: Apache-2.0
"""What fools other tools: a crash that looks fast, a preload that never was, an order that decides, another's memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from e2e_yard import control, counted, failures, program, ratio_interval, shim, values, wait_until

from heapyard.stats.analyse import analyse

PAIRS = 3000  # enough for the late faults to act, few enough to be quick
UNITS = 2000


@pytest.mark.parametrize(
    "fault, kind, words",
    [
        ("crash_late", "signal", "SIGSEGV"),
        ("enomem", "exit", "1"),
        ("wrong", "wrong answer", "answer"),
    ],
)
def test_a_failure_never_looks_like_a_fast_run(yard, fault, kind, words):
    result = yard.compare(program("mallocs"), PAIRS, UNITS, own={"faulty": shim(fault), "plain": shim("plain")})
    record = yard.record()
    assert result.returncode == 0, result.stderr
    assert failures(record).keys() == {"faulty"}
    found, reason = failures(record)["faulty"]
    assert found == kind and words in reason
    analysis = analyse(record.observations)
    for cell in analysis.cells:
        assert "faulty" not in [s.treatment for s in cell.summaries]
        if cell.metric != "wall":
            continue  # what is sampled may be missing of a trial where others load the machine
        # Guards may reject most of a sound one's trials there.
        blocks, plain = ({t.block for t in counted(record, label)} for label in ("glibc", "plain"))
        assert "plain" in [s.treatment for s in cell.summaries] or len(blocks & plain) < len(blocks) / 2
    assert "faulty" in result.stdout and reason.split()[0] in result.stdout


def test_one_crash_in_three_is_a_crash(yard, tmp_path):
    """Two of three launches are sound, and even so no mean is shown for it."""
    counter = tmp_path / "launches"
    yard.compare(
        program("mallocs"),
        PAIRS,
        UNITS,
        own={"faulty": shim("flaky")},
        blocks=8,
        env={"HEAPYARD_TEST_COUNTER": str(counter)},
    )
    record = yard.record()
    assert failures(record)["faulty"][0] == "signal"
    assert [t.status for t in record.trials if t.treatment == "faulty"].count("ok") > 0
    assert all("faulty" not in [s.treatment for s in cell.summaries] for cell in analyse(record.observations).cells)


def test_an_allocator_that_hangs_is_ended(yard):
    result = yard.compare(program("mallocs"), PAIRS, UNITS, own={"faulty": shim("hang")}, options=["--timeout", "2s"])
    assert failures(yard.record())["faulty"][0] == "timeout"
    assert counted(yard.record(), "glibc") and result.returncode == 0


def test_a_library_that_disappears_never_runs_as_glibc(yard, tmp_path):
    """Found when the experiment began, gone when it is half done: the loader would go on without it."""
    library = Path(shutil.copy(shim("plain"), tmp_path / "libmine.so"))
    process = yard.start(*yard.comparison(program("naps"), 50, own={"mine": library}, blocks=40))
    wait_until(lambda: len(served(yard)) >= 3, of=process)
    library.unlink()
    gone = len(served(yard))
    process.communicate(timeout=120)
    assert len(served(yard)) <= gone + 1  # the one that was starting
    assert all(t.provider == str(library) for t in served(yard))
    assert failures(yard.record())["mine"][0] in ("not injected", "cannot start")


def test_a_library_that_is_rebuilt_meanwhile_is_not_measured_as_one(yard, tmp_path):
    """Half of the trials would be of the old one, half of the new one."""
    library = Path(shutil.copy(shim("plain"), tmp_path / "libmine.so"))
    rebuilt = Path(shutil.copy(shim("slow"), tmp_path / "libmine.new"))
    process = yard.start(*yard.comparison(program("naps"), 50, own={"mine": library}, blocks=40))
    wait_until(lambda: len(served(yard)) >= 3, of=process)
    rebuilt.rename(library)
    gone = len(served(yard))
    process.communicate(timeout=120)
    assert len(served(yard)) <= gone + 1
    assert "replaced" in failures(yard.record())["mine"][1]


def served(yard) -> list[object]:
    """Trials under the library that ended well so far."""
    return [t for t in yard.trials() if t.treatment == "mine"]


def test_every_counted_trial_names_the_object_that_served_it(yard):
    yard.compare(program("mallocs"), 200, 100, own={"mine": shim("plain")})
    record = yard.record()
    assert {t.provider for t in counted(record, "mine")} == {str(shim("plain").resolve())}
    assert len({t.provider for t in counted(record, "glibc")} - {t.provider for t in counted(record, "mine")}) == 1


@pytest.mark.parametrize("start", ["", "sleep 0.3; "], ids=["at once", "after a while"])
def test_a_preload_that_is_shaken_off_is_no_result(yard, start):
    """The program proper runs with an empty environment: glibc serves it, whatever served its wrapper. It runs for long
    enough to be looked at on a busy machine too."""
    result = yard.compare("sh", "-c", f"{start}exec {program('clears_env')} {program('mallocs')} {25 * PAIRS} {UNITS}")
    record = yard.record()
    assert failures(record)["plain"][0] == "not injected"
    assert counted(record, "glibc") and not counted(record, "plain")
    assert "plain" in result.stdout


def test_order_does_not_decide(yard, tmp_path):
    """A program slower with every launch, whatever serves it: runs of one, then of the other, would differ."""
    result = yard.compare(
        program("drifts"), own={"later": shim("plain")}, blocks=12, env={"HEAPYARD_TEST_COUNTER": str(tmp_path / "n")}
    )
    assert result.returncode == 0, result.stderr
    record = yard.record()
    trials = sorted((t for t in record.trials if t.counted), key=lambda t: t.started)
    cpu = [t.metrics["cpu"] for t in trials]
    half = len(cpu) // 2
    assert sum(cpu[half:]) > 1.15 * sum(cpu[:half]), "the drift did not happen, so the test shows nothing"
    for treatment in ("later", control(record)):
        low, high = ratio_interval(record, treatment, "cpu")
        assert low <= 1 <= high
    orders = {tuple(t.treatment for t in trials if t.block == block) for block in {t.block for t in trials}}
    assert len(orders) > 1


def test_peak_memory_is_not_that_of_another_child(yard):
    """A big launch before a small one: the kernel's sum over children remembers the biggest for ever."""
    assert yard.compare("sh", "-c", f"exec {program('known_rss')} 96", blocks=2).returncode == 0
    big = values(yard.record(), "glibc", "peak_rss")
    assert yard.compare(program("known_rss"), 0, blocks=2).returncode == 0
    small = values(yard.record(), "glibc", "peak_rss")
    assert min(big) > 96 << 20 and max(small) < 16 << 20


def test_within_an_experiment_each_launch_has_its_own_peak(yard):
    """Under libwaste the program needs more; the launches around it must not inherit that."""
    assert yard.compare(program("known_rss"), 64, own={"waste": shim("waste")}, blocks=4).returncode == 0
    record = yard.record()
    wasteful = min(values(record, "waste", "peak_rss"))
    for sound in ("glibc", control(record)):
        assert max(values(record, sound, "peak_rss")) < 0.9 * wasteful


def test_the_memory_of_a_child_is_the_programs_memory(yard):
    """The root stays small and its child is large: the program takes what the child takes."""
    assert yard.compare(program("child_big"), 64, blocks=2).returncode == 0
    assert min(values(yard.record(), "glibc", "peak_rss")) > 64 << 20


def test_short_programs_are_timed_without_steps(yard):
    """Programs of 2, 5, 8 and 11 ms must come out in that order: a wait that polls puts several on one step."""
    fastest = []
    for milliseconds in (2, 5, 8, 11):
        assert yard.compare(program("naps"), milliseconds, blocks=5).returncode == 0
        record = yard.record()
        fastest.append(min(min(values(record, label, "wall")) for label in ("glibc", "plain", control(record))))
        assert fastest[-1] >= milliseconds / 1000
    assert fastest == sorted(fastest) and len(set(fastest)) == len(fastest)


def test_what_a_program_leaves_behind_does_not_outlive_the_trial(yard):
    """Its grandchild would disturb the trials that follow."""
    result = yard.compare(program("daemonize"), 600_000, blocks=2)
    assert result.returncode == 0, result.stderr
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if b"daemonize\x00600000" in _bytes(p)]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_preload_of_the_users_own_does_not_pass_for_an_allocator(yard):
    """Heapyard is started under LD_PRELOAD itself: each row is still served by what it names."""
    yard.compare(program("mallocs"), 200, 100, own={"mine": shim("plain")}, env={"LD_PRELOAD": str(shim("slow"))})
    record = yard.record()
    assert {t.provider for t in counted(record, "mine")} == {str(shim("plain").resolve())}
    assert all(Path(t.provider).name.startswith("libc.so") for t in counted(record, "glibc"))


def test_two_experiments_never_run_at_once(yard):
    first = yard.start(*yard.comparison(program("naps"), 50, blocks=20))
    wait_until(lambda: yard.trials() != [], of=first)
    second = yard.compare(program("naps"), 50)
    assert second.returncode != 0 and "another experiment" in second.stderr
    assert first.poll() is None
    assert len(list(yard.results.glob("*/*.sqlite"))) == 1

# SPDX-License-Identifier: Apache-2.0
"""Charged memory: what the launcher adds up from looks, and what a control group adds to it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from test_trial import program, shim, trial
from test_trial_launcher import launch

from heapyard.execute.machine.files import Files
from heapyard.execute.memory_groups import _make, group_for, home_of_groups
from heapyard.execute.memory_source import obstacle_to_groups, source_finding
from heapyard.model import places
from heapyard.model.errors import SetupError
from heapyard.model.experiment import Settings

PAGE = os.sysconf("SC_PAGESIZE")
MIB = 1 << 20
KNOWN_RSS = str(places.native("known_rss"))
UNCOUNTED = 32 * PAGE * (os.cpu_count() or 1)  # the kernel counts pages on each processor by itself


def charged(found: dict[str, Any]) -> int:
    return found["charged"]


def at_rest(measure: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """What is measured with a rest, in milliseconds, in which somebody looked: longer where looks are rare."""
    for rest in (200, 2000, 20000):
        found = measure(rest)
        if found["samples"] and found["samples"][-1][0] > found["wall"] - 0.5e-3 * rest:
            return found
    pytest.fail("nobody looked in 20 seconds")


@pytest.mark.parametrize("mib", [0, 8, 64])
def test_it_is_resident_memory_and_the_tables_for_it(mib: int) -> None:
    found = at_rest(lambda rest: launch("--", KNOWN_RSS, str(mib), str(rest)))
    beside = charged(found) - found["peak_rss"]  # type: ignore[operator]
    least = found["peak_rss"] // PAGE * 8  # type: ignore[operator]
    assert least <= found["page_tables"] <= least + 256 * 1024  # type: ignore[operator]
    assert abs(beside - found["page_tables"]) <= 64 * 1024 + UNCOUNTED  # type: ignore[operator]


def test_a_peak_between_two_looks_is_not_missed() -> None:
    """Looks come 1, 2, 4 ... ms apart, up to a minute: 64 MiB are taken and given back while nobody looks."""
    spike = "m = mmap.mmap(-1, 64 << 20); m[::4096] = bytes(16384); m.close()"
    script = f"import mmap, time; time.sleep(0.3); {spike}; time.sleep(0.2)"
    for _ in range(20):
        found = launch("--interval", "60", "--", "/usr/bin/python3", "-I", "-S", "-c", script)
        seen = max(rss for _, rss, _ in found["samples"])  # type: ignore[union-attr]
        if found["peak_rss"] > seen + 48 * MIB:  # type: ignore[operator]
            break
    else:
        pytest.fail("in every launch somebody looked in time")
    assert charged(found) >= found["peak_rss"] + 64 * MIB // PAGE * 8  # type: ignore[operator]


def test_a_program_nobody_saw_counts_with_what_is_certain() -> None:
    found = launch("--no-sampling", "--", KNOWN_RSS, "8")
    assert found["charged_error"] == -1
    assert 8 * 2048 <= charged(found) - found["peak_rss"] <= 64 * 1024  # type: ignore[operator]


def test_all_processes_count_together() -> None:
    script = f"{KNOWN_RSS} 24 $0 & {KNOWN_RSS} 24 $0 & wait"
    found = at_rest(lambda rest: launch("--", "/bin/sh", "-c", script, str(rest)))
    assert found["peak_rss"] < 40 * MIB and 48 * MIB < charged(found) < 60 * MIB


def test_a_thread_counts_with_its_kernel_stack() -> None:
    """The size is the kernel's own figure for all stacks, over the number of all threads."""
    kib = int(re.search(r"KernelStack:\s*(\d+)", Path("/proc/meminfo").read_text())[1])
    threads = int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])
    each = kib * 1024 / threads
    script = (
        "import sys, threading, time\ngate = threading.Event()\n"
        "for _ in range(int(sys.argv[1])): threading.Thread(target=gate.wait).start()\n"
        "time.sleep(int(sys.argv[2]) / 1000); gate.set()"
    )
    python = ("/usr/bin/python3", "-I", "-S", "-c", script)
    few, many = (at_rest(lambda rest, n=n: launch("--", *python, n, str(rest))) for n in ("1", "101"))
    beside = [charged(f) - f["peak_rss"] - f["page_tables"] for f in (few, many)]  # type: ignore[operator]
    assert beside[1] - beside[0] == pytest.approx(100 * each, rel=0.1, abs=UNCOUNTED)


def test_tables_alone_are_seen() -> None:
    """libsparse wastes a fifth of what is asked for, in page tables: resident memory cannot tell it from glibc."""

    def under(library: str) -> dict[str, Any]:
        preload = f"LD_PRELOAD={shim(library).library}"
        return at_rest(lambda rest: launch("--", "/usr/bin/env", preload, KNOWN_RSS, "64", str(rest)))

    lean, wasteful = under("plain"), under("sparse")
    assert wasteful["peak_rss"] == pytest.approx(lean["peak_rss"], rel=0.01)
    assert wasteful["page_tables"] - lean["page_tables"] == pytest.approx(64 * MIB / 5, rel=0.02)
    assert wasteful["charged"] - lean["charged"] == pytest.approx(64 * MIB / 5, rel=0.05)


# ---------------------------------------------------------------------------------------------- control groups

ROOT = "sys/fs/cgroup"
FREE = {"memory.max": "max", "memory.high": "max", "cpu.max": "max 100000"}


def kernel(folder: Path, own: str, control: dict[str, str], limits: Mapping[str, str] = {}) -> Files:
    """A made-up cgroupfs: `control` holds the cgroup.subtree_control of the groups above `own`, by path."""
    contents = {f"{ROOT}/cgroup.controllers": "cpu memory", "proc/self/cgroup": f"4:cpu:/x\n0::{own}"}
    for path, words in control.items():
        contents[f"{ROOT}{path}/cgroup.subtree_control"] = words
        contents[f"{ROOT}{path}/cgroup.procs"] = ""
    for name, value in {**FREE, **limits}.items():
        contents[f"{ROOT}{own}/{name}" if "/" not in name else f"{ROOT}{name}"] = value
    for path, text in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return Files(folder)


def test_the_nearest_group_that_gives_accounts_is_the_home(tmp_path: Path) -> None:
    above = {"": "cpu memory", "/user.slice": "memory", "/user.slice/user-1": "cpu"}
    deep = kernel(tmp_path, "/user.slice/user-1/session", above)
    assert home_of_groups(deep) == (f"{ROOT}/user.slice", "")
    (tmp_path / "proc/self/cgroup").write_text("0::/")
    assert home_of_groups(deep) == (ROOT, "")


@pytest.mark.parametrize(
    "own, control, limits, words",
    [
        ("/a/b", {"": "cpu", "/a": "cpu pids"}, {}, "no control group above"),
        ("/a/b", {"": "memory", "/a": "memory", "/a/b": "memory"}, {"memory.max": "1000"}, "limit of memory"),
        ("/a/b", {"": "memory", "/a": "cpu"}, {"/a/memory.high": "7"}, "limit of memory"),
        ("/a/b", {"": "memory", "/a": "memory"}, {"cpu.max": "50000 100000"}, "limit of processor time"),
        ("/../b", {"": "memory"}, {}, "outside"),
    ],
)
def test_where_no_group_may_be_made_the_reason_is_told(
    tmp_path: Path, own: str, control: dict[str, str], limits: dict[str, str], words: str
) -> None:
    home, reason = home_of_groups(kernel(tmp_path, own, control, limits))
    assert home == "" and words in reason


def test_version_1_and_rights_that_are_missing_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "version 2" in home_of_groups(Files(tmp_path))[1]
    files = kernel(tmp_path, "/a/b", {"": "memory", "/a": "memory"})
    assert home_of_groups(files)[0]
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    assert "no control group above" in home_of_groups(files)[1]


def test_a_kernel_that_keeps_no_peak_is_told_and_nothing_stays_behind(tmp_path: Path) -> None:
    files = kernel(tmp_path, "/a/b", {"": "memory", "/a": "memory"})
    with pytest.raises(SetupError, match=r"from Linux 5\.19 on"):
        _make(files)
    assert not list(tmp_path.rglob("heapyard-*"))


def test_a_user_without_rights_falls_back_and_says_so() -> None:
    """A user whom nobody has given a group."""
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    lab = Path(__file__).resolve().parents[2] / "lab"
    script = (
        "import os, sys; os.setgid(54321); os.setuid(54321); sys.path.insert(0, sys.argv[1]); from pathlib import Path; "
        "from heapyard.execute.memory_groups import home_of_groups; from heapyard.execute.machine.files import Files; "
        "print(home_of_groups(Files(Path('/')))[1])"
    )
    done = subprocess.run(["/usr/bin/python3", "-c", script, str(lab)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the lab cannot be read by another user here: {done.stderr[-200:]}")
    assert done.stdout.strip()


def test_the_doctor_says_what_this_machine_has(heapyard) -> None:  # type: ignore[no-untyped-def]
    checks = json.loads(heapyard("doctor", "--no-noise", "--json").out)["checks"]
    (found,) = [c for c in checks if c["check"] == "charged memory"]
    assert found["severity"] == "ok" and "looks" in found["state"]
    obstacle = obstacle_to_groups()
    assert (obstacle in found["state"]) and (bool(obstacle) or "second opinion" in found["state"])
    assert source_finding("why not").state.endswith("why not")


def test_trials_have_groups_where_the_machine_lets_them(tmp_path: Path) -> None:
    obstacle = obstacle_to_groups()
    m = trial(tmp_path, program(KNOWN_RSS, "16", "100"), settings=Settings(control_groups=True)).metrics
    assert ("group_peak" in m) == (not obstacle)
    if not obstacle:
        assert 16 * MIB <= m["group_charged"] <= m["group_peak"]


def test_a_response_that_leads_is_not_silently_left_out() -> None:
    if not obstacle_to_groups():
        pytest.skip("this machine makes groups")
    with pytest.raises(SetupError, match="control group"), \
            group_for(Settings(control_groups=True, memory_metric="group_charged")):
        pass
    with group_for(Settings(control_groups=True)) as group:
        assert group is None


def test_the_cache_of_files_is_taken_out_of_a_groups_peak(tmp_path: Path) -> None:
    stat = {"anon": 60, "file": 30, "shmem": 5, "slab_reclaimable": 1, "file_mapped": 20}
    account = {"memory.peak": 100, "memory.current": 90, "memory.swap.current": 2}
    account = {name: str(mib * MIB) for name, mib in account.items()} | {"cgroup.procs": ""}
    account["memory.stat"] = "".join(f"{name} {mib * MIB}\n" for name, mib in stat.items())
    for name, text in account.items():
        (tmp_path / name).write_text(text)
    found = launch("--group", str(tmp_path), "--", "/bin/sleep", "0.05")
    assert (tmp_path / "cgroup.procs").read_text() == "0"  # the program put itself there
    assert (found["group_peak"], found["group_charged"]) == (100 * MIB, (100 - (30 - 5) - 1 + 2) * MIB)


def test_a_group_that_is_not_there_is_a_trial_that_cannot_start(tmp_path: Path) -> None:
    """Many at once: the launcher is then often so slow to let its child go that the child has failed and ended."""
    nowhere = ("--group", str(tmp_path / "none"), "--", "/bin/true")
    with ThreadPoolExecutor(24) as pool:
        for found in pool.map(lambda _: launch(*nowhere), range(96)):
            assert (found["status"], found["what"]) == ("cannot start", "join the control group for")

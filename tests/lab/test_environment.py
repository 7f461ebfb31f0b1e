# SPDX-License-Identifier: Apache-2.0
"""The machine as it is recorded with every experiment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heapyard.execute.environment import snapshot


def test_this_machine_is_recorded_as_json() -> None:
    found = json.loads(json.dumps(snapshot()))
    for name in ("kernel", "architecture", "distribution", "libc", "python", "load", "aslr", "overcommit", "counters"):
        assert found[name] not in ("", None, {}), name
    assert found["cpus_online"] >= len(found["cpus_allowed"]) >= 1
    assert found["memory_kib"]["MemTotal"] > 0


def test_a_kernel_that_tells_nothing_is_no_error(tmp_path: Path) -> None:
    found = snapshot(tmp_path)
    assert found["distribution"] == "unknown" and found["cpu"] == {}
    assert "governor" not in found and "load" not in found  # absent, not empty
    json.dumps(found)


def test_what_the_kernels_files_say_is_recorded(tmp_path: Path) -> None:
    files = {
        "etc/os-release": 'NAME=Yard\nPRETTY_NAME="Yard Linux 3"\n',
        "proc/cpuinfo": "model name\t: Abacus 9\nflags\t\t: fpu hypervisor\n\nmodel name\t: Abacus 9\nflags\t\t: fpu\n",
        "proc/meminfo": "MemTotal:  100 kB\nSwapTotal: 7 kB\nDirty: 1 kB\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
        "sys/fs/cgroup/cpu.max": "max 100000\n",
        "proc/self/cgroup": "0::/slice/job\n",
        "sys/fs/cgroup/slice/cpu.max": "50000 100000\n",
        "sys/fs/cgroup/slice/job/cpu.max": "150000 100000\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = snapshot(tmp_path)
    assert found["distribution"] == "Yard Linux 3"
    assert found["cpu"]["model"] == "Abacus 9"
    assert found["memory_kib"] == {"MemTotal": 100, "SwapTotal": 7}
    assert found["huge_pages_transparent"] == "always [madvise] never"
    assert found["clocksource"] == "tsc" and found["cgroup_cpu_max"] == "max 100000"
    assert found["cpu_quota"] == 0.5, "the tightest group's"


def test_a_quota_of_the_first_version_of_groups_is_seen(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "4:cpu,cpuacct:/job\n", "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "200000\n",
             "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert snapshot(tmp_path)["cpu_quota"] == 2.0
    (tmp_path / "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us").write_text("-1\n")
    assert "cpu_quota" not in snapshot(tmp_path)


@pytest.mark.parametrize(
    ("variable", "recorded"),
    [
        ("MALLOC_ARENA_MAX", True),
        ("MALLOC_CONF", True),
        ("GLIBC_TUNABLES", True),
        ("MIMALLOC_VERBOSE", True),
        ("TCMALLOC_SAMPLE_PARAMETER", True),
        ("SCUDO_OPTIONS", True),
        ("LD_PRELOAD", True),
        ("MY_PASSWORD", False),
    ],
)
def test_settings_of_allocators_are_recorded_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, variable: str, recorded: bool
) -> None:
    monkeypatch.setenv(variable, "")
    assert (variable in snapshot()["tunables"]) is recorded

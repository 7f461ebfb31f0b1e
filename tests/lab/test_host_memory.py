# SPDX-License-Identifier: Apache-2.0
"""Memory that the host gives on first touch: whether the lab sees that it does, and that trials find it touched."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_experiment_loop import run
from test_experiment_slices import Machine, what

from heapyard.execute import host_memory
from heapyard.execute.experiment import ROOM
from heapyard.execute.machine.files import Files
from heapyard.execute.machine.memory import free_pages, takes_free_pages

BALLOON = "sys/bus/virtio/drivers/virtio_balloon/virtio3/features"
REPORTS, SILENT = "0110010" + 57 * "0", "0110000" + 57 * "0"


def machine(tmp_path: Path, features: str | None) -> Files:
    if features is not None:
        # As the kernel has it: the driver's folder has links to its devices.
        device = tmp_path / "sys/devices/virtio3"
        device.mkdir(parents=True)
        (device / "features").write_text(features + "\n")
        link = (tmp_path / BALLOON).parent
        link.parent.mkdir(parents=True)
        link.symlink_to(device)
    return Files(tmp_path)


@pytest.mark.parametrize("features, takes", [(REPORTS, True), (SILENT, False), ("", False), (None, False)])
def test_a_balloon_says_whether_the_host_takes_free_pages(tmp_path: Path, features: str | None, takes: bool) -> None:
    files = machine(tmp_path, features)
    assert takes_free_pages(files) == takes
    finding = free_pages(files)
    assert finding.severity == ("warn" if takes else "ok") and bool(finding.remedy) == takes


def clock(steps: list[float]) -> Iterator[float]:
    """What a clock shows that is looked at before and after each step."""
    now = 0.0
    for step in steps:
        yield now
        now += step
        yield now


@pytest.mark.parametrize("first, cost", [([1, 1, 17, 1], 17), ([1, 1, 1, 1], 1)])
def test_the_slowest_first_touch_is_told_beside_the_usual(first: list[float], cost: float) -> None:
    shown = clock([*first, 1, 1.1, 1.2, 1])
    assert host_memory.first_touch(lambda: next(shown)) == pytest.approx(cost)
    assert next(shown, None) is None


def roomy(tmp_path: Path, mebibytes: int = 8192) -> Files:
    (tmp_path / "proc").mkdir(exist_ok=True)
    (tmp_path / "proc/meminfo").write_text(f"MemAvailable: {mebibytes << 10} kB")
    return Files(tmp_path)


def test_where_no_balloon_tells_the_cost_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cost, ready in ((host_memory.SLOW * 2, host_memory.make_ready), (1.0, None)):
        monkeypatch.setattr(host_memory, "first_touch", lambda cost=cost: cost)
        assert host_memory.readying(roomy(tmp_path)) is ready


def test_where_memory_is_scarce_nothing_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "first_touch", lambda: pytest.fail("tried"))
    assert host_memory.readying(roomy(tmp_path, mebibytes=1000)) is None


def test_where_a_balloon_tells_nothing_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "first_touch", lambda: pytest.fail("tried"))
    assert host_memory.readying(machine(tmp_path, REPORTS)) is host_memory.make_ready


def test_as_much_is_touched_as_was_asked_for_and_nothing_is_kept() -> None:
    script = """
import re
from heapyard.execute.host_memory import make_ready
def peak(): return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) >> 10
def now(): return int(open("/proc/self/statm").read().split()[1]) >> 8
make_ready(0)
before, held = peak(), now()
make_ready(300 << 20)
print(peak() - before, now() - held)
"""
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    more, kept = map(int, done.stdout.split())
    assert 290 <= more <= 310 and kept <= 2


def test_a_limit_on_memory_stops_nothing() -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    script = """
from heapyard.execute import host_memory
from heapyard.execute.experiment import ROOM
host_memory.make_ready(4 << 30)
host_memory._PROBED = 1 << 30, 4
host_memory.takes_free_pages = lambda files: False
print(host_memory.readying())
"""
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, preexec_fn=limited)
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr


@pytest.mark.parametrize(
    "contents, free",
    [
        ({}, 8 << 30),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": "max"}, 8 << 30),
        (
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/b/memory.max": "max",
                "sys/fs/cgroup/a/b/memory.current": "1",
                "sys/fs/cgroup/a/memory.max": "1000",
                "sys/fs/cgroup/a/memory.current": "400",
            },
            600,
        ),
        (
            {
                "proc/self/cgroup": "9:memory:/c\n0::/",
                "sys/fs/cgroup/memory/c/memory.limit_in_bytes": "1000",
                "sys/fs/cgroup/memory/c/memory.usage_in_bytes": "1200",
            },
            0,
        ),
    ],
)
def test_a_group_of_this_process_limits_what_is_touched(tmp_path: Path, contents: dict[str, str], free: int) -> None:
    for path, content in ({"proc/meminfo": "MemAvailable: 8388608 kB"} | contents).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    assert host_memory.free_bytes(Files(tmp_path)) == free


def test_before_each_trial_what_such_trials_held_is_made_ready(tmp_path: Path) -> None:
    asked: list[float] = []
    stand_in = Machine()
    run(tmp_path, what(blocks=4, interleave="trials"), stand_in, make_ready=asked.append)
    assert len(asked) == len(stand_in.calls)
    assert asked[:2] == [0, 0], "nothing is known before the warm-ups"
    for (_, label, _), size in list(zip(stand_in.calls, asked, strict=True))[-8:]:
        assert size == pytest.approx(ROOM * (0.7e7 if label == "slim" else 1e7), rel=0.01), label


def test_before_a_block_in_slices_that_of_all_its_trials(tmp_path: Path) -> None:
    asked: list[float] = []
    stand_in = Machine()
    record = run(tmp_path, what(interleave="slices", blocks=5), stand_in, make_ready=asked.append)
    labels = [t.label for t in record.experiment.treatments]
    sliced = {t.block for t in record.trials if "slices" in t.metrics}
    together = ROOM * sum(0.7e7 if label == "slim" else 1e7 for label in labels)
    assert sliced and [size for size in asked if size > 2e7] == pytest.approx([together] * len(sliced), rel=0.01)
    assert len(asked) - len(sliced) == sum(not call[2] for call in stand_in.calls)

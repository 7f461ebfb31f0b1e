# SPDX-License-Identifier: Apache-2.0
"""What the heaps serve in a control group with a limit of memory, beside glibc.

Unlike a limit on address space it refuses nothing: whoever goes beyond it is killed. What counts is what is touched, page tables
too. Heaps with spans ask for the limit, and pack what goes beyond half of it tight: docs/scalloc.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from heapyard.catalog.own_heaps import own_heaps
from heapyard.execute.memory_groups import home_of_groups
from heapyard.execute.machine.files import Files
from heapyard.model import places
from profiled import program

HEAPS = [heap.name for heap in own_heaps()]
FIRST = ["bfm", "heapyard", "elfmalloc", "scalloc", "scalloc-shared-tables"]
SIZES = {"mixed": (16, 60_000), "small": (16, 200), "of 1,000 bytes": (1000, 1001)}

# With what Python adds, objects of 1,000 bytes exceed 1,024: nearly half of a block of 2,048 would be unused.
FILL = """
kept = []
while True:
    kept.append(bytes(1000) + b"x")
    if len(kept) % 1000 == 0: print(len(kept), flush=True)
"""
FILL_AGAIN = """
for turn in range(3):
    kept = [bytes(1000) + b"x" for number in range({number})]
    kept = None
    kept = [bytes(60_000) + b"x" for number in range({number} // 60)]
    kept = None
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """The folder of a new and empty control group that may have a limit of memory."""
    home, why = home_of_groups(Files(Path("/")))
    first = Path("/sys/fs/cgroup/memory")
    folder = (Path("/", home) if home else first) / f"heapyard-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {why or error.strerror}")
    yield folder
    for _ in range(100):
        try:
            return folder.rmdir()
        except OSError:
            time.sleep(0.05)


def within(group: Path, mebibytes: int, heap: str, command: list[str]) -> tuple[int, list[int]]:
    """Exit code, and the numbers told."""
    limit, swap = ("memory.max", "memory.swap.max") if (group / "memory.max").exists() else (
        "memory.limit_in_bytes", "memory.swappiness")
    (group / limit).write_text(str(mebibytes << 20))
    if (group / swap).exists():
        (group / swap).write_text("0")
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    if heap != "glibc":
        environment["LD_PRELOAD"] = str(places.native(f"lib{heap}.so").resolve())
    done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=300,
                          preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())))
    return done.returncode, [int(word) for word in done.stdout.split()]


def fills(least: int, most: int, mebibytes: int = 1 << 20) -> list[str]:
    return [str(program("fills")), str(least), str(most), str(mebibytes), "charged"]


def python(text: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", text]


PROGRAMS = {**{name: fills(*sizes) for name, sizes in SIZES.items()}, "Python's of 1,000": python(FILL)}


def most_served(group: Path, mebibytes: int, heap: str, name: str) -> int:
    code, told = within(group, mebibytes, heap, PROGRAMS[name])
    assert code == -9, code  # killed at the limit
    return told[-1]


@pytest.mark.parametrize(("mebibytes", "heaps"), [
    (256, FIRST), *(pytest.param(*which, marks=pytest.mark.on_request)
                    for which in ((256, HEAPS), (1024, FIRST), (4096, FIRST), (8192, FIRST)))])
def test_a_heap_serves_what_glibc_serves_before_the_group_is_full(group: Path, mebibytes: int, heaps: list[str]) -> None:
    theirs = {name: most_served(group, mebibytes, "glibc", name) for name in PROGRAMS}
    print(f"\n| heap, {mebibytes} MiB | {' | '.join(PROGRAMS)} |\n|---|{'---|' * len(PROGRAMS)}")
    wrong = []
    for heap in heaps:
        shares = [most_served(group, mebibytes, heap, name) / theirs[name] for name in PROGRAMS]
        print(f"| {heap} | {' | '.join(f'{share:.2f}' for share in shares)} |")
        if min(shares) < 0.9:
            wrong.append((heap, shares))
    assert not wrong


PARTLY_ON_REQUEST = [
    heap if heap in ("bfm", "heapyard") else pytest.param(heap, marks=pytest.mark.on_request) for heap in HEAPS]


@pytest.mark.parametrize("heap", PARTLY_ON_REQUEST)
def test_what_was_freed_serves_other_sizes(group: Path, heap: str) -> None:
    """Mixed sizes twice, large blocks, small ones, mixed ones again: three quarters of the group each, all freed between."""
    code, told = within(group, 256, heap, fills(16, 60_000, 256 * 3 // 4))
    print(f"{heap}: {'served' if code == 0 else 'killed'}")
    assert code == 0, (code, told[-1])


@pytest.mark.parametrize("heap", PARTLY_ON_REQUEST)
def test_what_python_freed_serves_other_sizes(group: Path, heap: str) -> None:
    """Objects of 1,000 bytes and of 60,000 in turn, each time as many as fill three quarters of what glibc serves."""
    number = most_served(group, 256, "glibc", "Python's of 1,000") * 3 // 4
    code, _ = within(group, 256, heap, python(FILL_AGAIN.format(number=number)))
    print(f"{heap}: Python {'served' if code == 0 else 'killed'}")
    assert code == 0, code

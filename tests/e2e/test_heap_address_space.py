# SPDX-License-Identifier: Apache-2.0
"""What the heaps' address space costs: under limits on it, in a core file, where it is locked, and in an emulator.

Each heap stands beside glibc, in the same program. The window of spans (heap/layers/backend/virtual_spans.hpp) must cost
nothing where it is not used.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from heapyard.catalog.own_heaps import own_heaps
from heapyard.model import places
from profiled import program

HEAPS = [heap.name for heap in own_heaps()]
FIRST = ["bfm", "scalloc", "scalloc-shared-tables", "elfmalloc", "fourth", "heapyard"]
PROTECTED = 8 << 30  # of address space: no fault here takes the machine down
Limits = dict[int, int]


def limited(limits: Limits) -> Callable[[], None]:
    def apply() -> None:
        for what, most in limits.items():
            resource.setrlimit(what, (most, most))

    return apply


def under(heap: str, limits: Limits, *words: object, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | {"PYTHONMALLOC": "malloc"}
    if heap != "glibc":
        environment["LD_PRELOAD"] = str(places.native(f"lib{heap}.so").resolve())
    limits = {resource.RLIMIT_AS: PROTECTED} | limits
    return subprocess.run([str(word) for word in words], env=environment, preexec_fn=limited(limits), capture_output=True,
                          text=True, timeout=300, **options)  # type: ignore[call-overload]


def numbers(done: subprocess.CompletedProcess[str]) -> list[int]:
    assert done.returncode == 0, (done.returncode, done.stdout[-300:], done.stderr[-300:])
    return [int(word) for word in done.stdout.split()]


def fills(heap: str, what: int, mebibytes: int) -> list[int]:
    """Mebibytes of mixed sizes, the same again, large blocks, small ones, and mixed sizes at last: each after all is freed."""
    return numbers(under(heap, {what: mebibytes << 20}, program("fills"), 16, 60_000, 1_000_000))


WHERE = [(resource.RLIMIT_AS, 256), (resource.RLIMIT_DATA, 256)]


@pytest.fixture(scope="module")
def of_glibc() -> dict[tuple[int, int], list[int]]:
    return {where: fills("glibc", *where) for where in WHERE}


@pytest.mark.parametrize("heap", [
    *FIRST, *(pytest.param(heap, marks=pytest.mark.on_request) for heap in HEAPS if heap not in FIRST)
])
def test_under_a_limit_a_heap_serves_what_glibc_serves_and_again_in_other_sizes(
    heap: str, of_glibc: dict[tuple[int, int], list[int]]
) -> None:
    for where in WHERE if heap in FIRST else WHERE[:1]:
        served = fills(heap, *where)
        assert all(ours >= 0.9 * theirs for ours, theirs in zip(served, of_glibc[where], strict=True)), (where, served)


OBJECTS = """
import resource, sys
if sys.argv[1] == "later":
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
def fill(size):
    held = []
    try:
        while True:
            held.append(bytearray(size))
    except MemoryError:
        count = len(held)
        held.clear()
        return count
print(*[fill(size) for size in (1000, 1000, 10_000, 2_000_000, 100, 1000)])
"""


@pytest.mark.parametrize("when, mebibytes, heaps", [
    ("later", 192, ["scalloc", "elfmalloc", "heapyard"]),
    *(pytest.param("before", mebibytes, HEAPS, marks=pytest.mark.on_request) for mebibytes in (256, 1024, 2048, 4096, 8192)),
])
def test_pythons_objects_fit_below_a_limit_that_is_set_before_or_later(when: str, mebibytes: int, heaps: list[str]) -> None:
    python = [os.path.realpath(sys.executable), "-S", "-E", "-c", OBJECTS, when, mebibytes << 20]
    limits = {resource.RLIMIT_AS: mebibytes << 20} if when == "before" else {}
    theirs = numbers(under("glibc", limits, *python))
    for heap in heaps:
        ours = numbers(under(heap, limits, *python))
        assert all(o >= 0.9 * t for o, t in zip(ours, theirs, strict=True)), (heap, ours, theirs)


@pytest.mark.parametrize("heap", FIRST)
def test_under_a_limit_as_many_threads_start_as_under_glibc(heap: str) -> None:
    def started(heap: str) -> int:
        done = under(heap, {resource.RLIMIT_AS: 512 << 20}, program("many_threads"), 100_000)
        assert done.returncode == 1
        return int(done.stdout)

    # What glibc starts varies: threads that find no room for an arena of their own share one.
    assert started(heap) >= 0.9 * started("glibc")


@pytest.mark.parametrize("heap", FIRST)
def test_ten_thousand_threads_at_once_take_60_kib_each(heap: str) -> None:
    """Resident memory and page tables, the stacks' included: what glibc's threads take is part of it."""
    count, stack = 10_000, 64  # KiB
    done = under(heap, {}, program("many_threads"), count, stack)
    if done.returncode == 1 and int(done.stdout) < count:
        pytest.skip(f"this system starts {done.stdout.strip()} threads at most")
    resident, tables = numbers(done)
    assert resident + tables <= 60 * count


@pytest.mark.parametrize("heap", FIRST)
def test_a_core_file_holds_what_is_used(heap: str, tmp_path: Path) -> None:
    if Path("/proc/sys/kernel/core_pattern").read_text().strip() != "core":
        pytest.skip("core files go elsewhere here")

    def core(heap: str) -> int:
        folder = tmp_path / heap
        folder.mkdir()
        done = under(heap, {resource.RLIMIT_CORE: 1 << 30}, program("locks_all"), 10, "crash", cwd=folder)
        assert done.returncode < 0
        (file,) = folder.iterdir()
        return file.stat().st_size

    assert core(heap) <= 2 * core("glibc")


def locked_kib(heap: str) -> int:
    (kib,) = numbers(under(heap, {resource.RLIMIT_AS: 2 << 30}, program("locks_all"), 10))
    return kib


@pytest.mark.parametrize("heap", [heap for heap in HEAPS if heap != "scalloc-no-virtual-spans"])  # its spans are 2 MiB
def test_locking_all_memory_locks_what_is_used(heap: str) -> None:
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] < 64 << 20 and os.geteuid() != 0:
        pytest.skip("this user may not lock memory")
    assert locked_kib(heap) <= 2 * locked_kib("glibc")


@pytest.mark.parametrize("heap", HEAPS)
def test_an_emulator_pays_for_no_reservation(heap: str) -> None:
    emulator = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
    if emulator is None:
        pytest.skip("this machine has no qemu-x86_64 (Debian's package qemu-user)")

    def peak_kib(*more: str) -> int:
        words = [emulator, *more, "/bin/true"]
        child = os.fork()
        if child == 0:
            try:
                limited({resource.RLIMIT_AS: PROTECTED})()
                os.execve(emulator, words, {})
            finally:
                os._exit(99)
        _, status, usage = os.wait4(child, 0)
        assert status == 0
        return usage.ru_maxrss

    assert peak_kib("-E", f"LD_PRELOAD={places.native(f'lib{heap}.so').resolve()}") <= peak_kib() + 64 * 1024

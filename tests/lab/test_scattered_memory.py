# SPDX-License-Identifier: Apache-2.0
"""Free memory in small pieces is moved together before an experiment: where there is much of it, and only there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from heapyard.execute.machine.files import Files
from heapyard.execute.machine.memory import COMPACT, SCATTERED, scattered_bytes
from heapyard.execute.scattered_memory import move_together

PAGE = os.sysconf("SC_PAGE_SIZE")


def machine(root: Path, scattered: int, memory: int = 8 << 30) -> Path:
    (root / COMPACT).parent.mkdir(parents=True)
    (root / COMPACT).write_text("0")
    (root / "proc/buddyinfo").write_text(f"Node 0, zone   Normal   {scattered // PAGE}   0   0   0   0   0   0   0   0   0   99\n")
    (root / "proc/meminfo").write_text(f"MemTotal:  {memory >> 10} kB\n")
    return root


@pytest.mark.parametrize(
    "scattered, memory, moves",
    [(SCATTERED, 8 << 30, True), (SCATTERED - PAGE, 8 << 30, False), (SCATTERED, 65 << 30, False), (0, 8 << 30, False)],
)
def test_much_in_small_pieces_is_moved_together(tmp_path: Path, scattered: int, memory: int, moves: bool) -> None:
    root = machine(tmp_path, scattered, memory)
    assert scattered_bytes(Files(root)) == scattered
    assert move_together(root) == moves
    assert (root / COMPACT).read_text() == ("1" if moves else "0")


def test_who_may_not_move_memory_measures_all_the_same(tmp_path: Path) -> None:
    root = machine(tmp_path, SCATTERED)
    (root / COMPACT).unlink()
    (root / COMPACT).mkdir()  # root may write any file
    assert not move_together(root)


def test_a_system_that_tells_nothing_is_left_alone(tmp_path: Path) -> None:
    assert not move_together(tmp_path)

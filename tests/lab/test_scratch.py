# SPDX-License-Identifier: Apache-2.0
"""Temporary folders of killed processes are removed; those of living ones, of others, and young ones stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from heapyard.execute import memory_groups, scratch
from heapyard.execute.scratch import ScratchFolder

KILLED = """
import os, sys, pathlib
from heapyard.execute.scratch import ScratchFolder
folder = ScratchFolder(pathlib.Path(sys.argv[1]))
(folder.path / "inside").mkdir()
print(folder.path, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def _as_in_a_new_process():
    scratch._sweep.cache_clear()
    memory_groups._remove_orphans.cache_clear()


def killed(parent: Path) -> Path:
    done = subprocess.run([sys.executable, "-c", KILLED, str(parent)], capture_output=True, text=True)
    return Path(done.stdout.strip())


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left, young = killed(tmp_path), killed(tmp_path)
    other = tmp_path / "heapyard-elsewhere"
    other.mkdir()
    for path in (left, other):
        os.utime(path, (0, 0))
    assert left.exists()
    with ScratchFolder(tmp_path) as folder:
        assert not left.exists() and young.exists() and other.exists() and folder.exists()
    assert not folder.exists()


def test_a_folder_in_use_stays_however_old_it_is(tmp_path: Path) -> None:
    with ScratchFolder(tmp_path) as living:
        os.utime(living, (0, 0))
        scratch._sweep.cache_clear()
        with ScratchFolder(tmp_path):
            assert living.exists()


def test_a_folder_is_removed_once(tmp_path: Path) -> None:
    folder = ScratchFolder(tmp_path)
    folder.remove()
    folder.path.mkdir()  # another one may get the name
    folder.remove()
    assert folder.path.exists()


def test_groups_of_dead_processes_are_removed(tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    for name in (f"heapyard-{dead.pid}-0", f"heapyard-{os.getpid()}-0", "heapyard-x-0", "system.slice"):
        (tmp_path / name).mkdir()
    memory_groups._remove_orphans(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"heapyard-{os.getpid()}-0", "heapyard-x-0", "system.slice"}

# SPDX-License-Identifier: Apache-2.0
"""Where an allocator's memory lies: in words, in the store, and found by a comparison."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from heapyard import store
from heapyard.catalog.allocators import installed_allocators
from heapyard.model.errors import HeapyardError
from heapyard.model.memory_parts import PARTS, MemoryParts
from heapyard.report.memory_words import sentences
from heapyard.store.memory_parts import NAME

MIB = 1 << 20


def parts(program: str, allocator: str, *sizes: float, huge: float = 0) -> MemoryParts:
    found = dict(zip(PARTS, (int(size * MIB) for size in sizes), strict=True))
    return MemoryParts(program, allocator, sum(found.values()), found, int(huge * MIB))


def test_a_sentence_names_who_has_most_and_where():
    found = [
        parts("jq", "glibc", 20, 0, 2, 3), parts("jq", "lean", 20, 0, 1, 3), parts("jq", "fat", 19, 8, 12, 3.5, huge=24),
        parts("small", "glibc", 1, 0, 0, 1), parts("small", "fat", 1, 0.5, 0.4, 1), parts("best", "glibc", 9, 0, 9, 0),
        parts("best", "fat", 9, 0, 1, 0), parts("alone", "fat", 9, 0, 1, 0),
    ]
    assert sentences(found, "glibc") == [
        "jq: fat has 17.5 MiB more than glibc: 10.0 more in free, cached, and the allocator's records and 8.0 more in blocks "
        "beyond what was asked for (24.0 MiB of it all lie in huge pages)."
    ]
    [with_less] = sentences([parts("p", "glibc", 10, 0, 0, 0), parts("p", "fat", 6, 8, 0, 0)], "glibc")
    assert with_less.endswith("8.0 more in blocks beyond what was asked for and 4.0 less in live blocks.")


def test_what_is_stored_is_read_again(tmp_path: Path):
    found = (parts("jq", "glibc", 20, 0, 2, 3, huge=2), parts("jq", "fat", 20, 8, 12, 3))
    assert store.read_memory_parts(tmp_path) == ()
    store.write_memory_parts(tmp_path, found)
    assert store.read_memory_parts(tmp_path) == found
    for content in ("", "{}", '[{"program": 1}]', "[3]"):
        (tmp_path / NAME).write_text(content)
        if content != "{}":
            with pytest.raises(HeapyardError, match=f"{NAME} is not what heapyard wrote"):
                store.read_memory_parts(tmp_path)


KEEPS = "kept = [bytes(1030) for _ in range(20000)]; import time; time.sleep(0.2)"


def test_a_comparison_says_where_the_memory_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HEAPYARD_LOCK", str(tmp_path / "lock"))
    names = [a.name for a in installed_allocators() if a.name == "elfmalloc"]
    assert names  # it is built with the tests
    words = [sys.executable, "-I", "-m", "heapyard", "compare", *names, "--blocks", "1", "--explain-memory", "--json",
             "--output", str(tmp_path / "results"), "--", "/usr/bin/python3", "-Ic", KEEPS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    memory = {row["allocator"]: row for row in json.loads(done.stdout)["memory"]}
    assert set(memory) == {"glibc", *names}
    for row in memory.values():
        assert sum(row["parts"].values()) == row["resident"]
        assert 15 * MIB < row["parts"]["live"] < 40 * MIB  # an estimate
    # Blocks of 1063 bytes lie in classes of 2048.
    assert memory[names[0]]["parts"]["rounding"] > 10 * MIB > memory["glibc"]["parts"]["rounding"]
    [folder] = [path for path in (tmp_path / "results").iterdir() if (path / NAME).exists()]
    page = (folder / "report.html").read_text()
    assert "Where the memory lies" in page and "MiB more than glibc" in page
    shown = subprocess.run([*words[:4], "show", str(folder)], capture_output=True, text=True)
    assert "free &amp; own" not in shown.stdout and "free & own" in shown.stdout, shown.stdout + shown.stderr

# SPDX-License-Identifier: Apache-2.0
"""What HEAPYARD_CONF sets of libheapyard, in a program that knows nothing of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from heapyard.model import places

LIBRARY = places.native("libheapyard.so").resolve()


def run(conf: str, program: str = "pass", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-c", program],
        env={"PATH": os.environ["PATH"], "LD_PRELOAD": str(LIBRARY), "HEAPYARD_CONF": conf, "PYTHONMALLOC": "malloc", **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


def statistics(conf: str, program: str = "pass") -> dict:
    done = run(f"{conf},statistics=on" if conf else "statistics=on", program)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stderr)


def test_statistics_are_told_at_the_end() -> None:
    told = statistics("", "x = [bytes(1000) for i in range(5000)]")
    assert told["name"] == "heapyard" and told["limit"] is None and told["threads"] == 1
    assert all(one["blocks"] > 0 for one in told["classes"]) and told["classes"][0]["bytes"] == 16
    parts = ("small_blocks", "large_blocks", "first_class_spans", "cached", "free_in_spans", "free_dirty", "free_clean")
    assert sum(told["bytes"][part] for part in parts) == told["bytes"]["mapped"]


def test_a_limit_is_kept_and_the_program_hears_of_it() -> None:
    grow = "x = []\ntry:\n  while True: x.append(bytes(1 << 20))\nexcept MemoryError: n = len(x); x = None; print(n)"
    done = run("limit=64M", grow)
    assert done.returncode == 0 and 40 <= int(done.stdout) < 64, done
    assert statistics("limit=64M")["limit"] == 64 << 20
    assert run("", "x = [bytes(1 << 20) for i in range(100)]").returncode == 0


def test_without_a_cache_threads_keep_less() -> None:
    usual, none = statistics("")["bytes"]["cached"], statistics("thread_cache=0")["bytes"]["cached"]
    assert none < usual


# Half of the blocks of one size are freed while others of another size come.
BREATHE = """
import ctypes
x = [bytes(40_000) for i in range(2000)]
x = x[::2]
y = [bytes(90_000) for i in range(400)]
text = ctypes.create_string_buffer(100_000)
assert 0 < ctypes.CDLL(None).heapyard_statistics(text, ctypes.c_size_t(100_000)) < 100_000
print(text.value.decode())
"""


def test_how_much_stays_beside_a_peak_can_be_chosen() -> None:
    told = [json.loads(run(conf, BREATHE).stdout)["bytes"]["free_dirty"] for conf in ("keep=0", "", "keep=1000")]
    assert told[0] <= told[1] < told[2], told
    assert told[2] - told[0] > 10_000_000, told


@pytest.mark.parametrize("conf, asked", [("", True), ("huge_pages=on", True), ("huge_pages=off", False)])
def test_huge_pages_are_asked_for_or_not(conf: str, asked: bool) -> None:
    look = (
        "x = [bytes(600) for i in range(60_000)]\n"
        "print(any(' hg' in line for line in open('/proc/self/smaps') if line.startswith('VmFlags:')))"
    )
    done = run(conf, look)
    assert done.returncode == 0 and done.stdout.strip() == str(asked), done


@pytest.mark.parametrize(
    "conf, sentence",
    [
        ("limit=64Q", "'limit=64Q' is left out: a size is expected, such as 512M"),
        ("limit=0", "'limit=0' is left out: a size is expected, such as 512M"),
        ("limit=99999999999G", "'limit=99999999999G' is left out: a size is expected, such as 512M"),
        ("keep=2000", "'keep=2000' is left out: a percentage is expected, 0 to 1000"),
        ("huge_pages", "'huge_pages' is left out: on or off is expected"),
        ("colour=red", "'colour=red' is left out: the options are limit, thread_cache, keep, huge_pages and statistics"),
        (",,", "'' is left out: the options are limit, thread_cache, keep, huge_pages and statistics"),
    ],
)
def test_what_is_wrong_is_said_and_left_out(conf: str, sentence: str) -> None:
    done = run(conf, "print(1)")
    assert done.returncode == 0 and done.stdout == "1\n"
    assert done.stderr.splitlines()[0] == f"heapyard: HEAPYARD_CONF: {sentence}"

# SPDX-License-Identifier: Apache-2.0
"""What looking at a program costs it, how exact the looks are, and what the launcher itself adds.

On request, for it times launches for a few minutes: pytest --on-request -s tests/e2e/test_trial_cost.py
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import time
from collections.abc import Callable
from statistics import mean, median, stdev

import pytest
from e2e_yard import program
from scipy.stats import t as student

from heapyard.model import places

pytestmark = pytest.mark.on_request

TRIAL = str(places.native("trial"))
PAIRS = 20
WORK = [str(program("mallocs")), "50000"]  # about a second of malloc, free and arithmetic
MIB = 2**20


def launch(*words: str) -> dict[str, object]:
    done = subprocess.run([TRIAL, *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def wall(*words: str) -> float:
    return float(launch(*words)["wall"])  # type: ignore[arg-type]


def bare(*command: str) -> float:
    """The same by the least there is: spawn and wait, both in the kernel."""
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, stream) for stream in range(3)]
    start = time.monotonic()
    os.waitpid(os.posix_spawn(command[0], command, os.environ, file_actions=actions), 0)
    end = time.monotonic()
    os.close(null)
    return end - start


def ratio(one: Callable[[], float], other: Callable[[], float], pairs: int = PAIRS) -> tuple[float, float, float]:
    """Geometric mean of one/other over pairs in random order, with its 95 % interval."""
    order, logs = random.Random(1), []
    for _ in range(pairs):
        times = {}
        for which in order.sample([one, other], 2):
            times[which] = which()
        logs.append(math.log(times[one] / times[other]))
    half = float(student.ppf(0.975, pairs - 1)) * stdev(logs) / math.sqrt(pairs)
    return math.exp(mean(logs)), math.exp(mean(logs) - half), math.exp(mean(logs) + half)


@pytest.mark.parametrize("pinned", [False, True], ids=["free", "pinned"])
def test_looking_costs_less_than_one_percent(pinned: bool) -> None:
    where = ["--cpus", str(min(os.sched_getaffinity(0)))] if pinned else []
    found, low, high = ratio(lambda: wall(*where, "--", *WORK), lambda: wall(*where, "--no-sampling", "--", *WORK))
    print(f"\nwall with looks / without: {found:.4f} [{low:.4f}, {high:.4f}]")
    assert low < 1.01


def test_the_launcher_adds_nothing_to_speak_of() -> None:
    found, low, high = ratio(lambda: wall("--no-sampling", "--", *WORK), lambda: bare(*WORK))
    print(f"\nwall by the launcher / by posix_spawn and waitpid: {found:.4f} [{low:.4f}, {high:.4f}]")
    assert low < 1.01


@pytest.mark.parametrize("mib", [64, 1024])
def test_looks_keep_to_their_share_whatever_the_size(mib: int) -> None:
    found = launch("--", str(program("known_rss")), str(mib), "2000")
    samples = found["samples"]
    looks, pss = len(samples), sum(s[2] >= 0 for s in samples)  # type: ignore
    share = found["sampling_cost"] / found["wall"]  # type: ignore[operator]
    print(f"\n{mib} MiB: {looks} looks, {pss} with PSS, {share:.2%} of the time")
    assert share < 0.015


# Linux counts a process's pages on each processor by itself and adds them up by so many: a look may miss the rest.
UNCOUNTED = 32 * os.sysconf("SC_PAGESIZE") * (os.cpu_count() or 1)


@pytest.mark.parametrize("mib", [16, 256])
def test_memory_is_what_the_program_holds(mib: int) -> None:
    """Its peak over that of itself with nothing; its last looks, when all is held."""
    peaks, looks = [], []
    for _ in range(5):
        empty = launch("--", str(program("known_rss")), "0", "50")
        full = launch("--", str(program("known_rss")), str(mib), "500")
        peaks.append((full["peak_rss"] - empty["peak_rss"]) / (mib * MIB))  # type: ignore[operator]
        looks.append(full["peak_rss"] - full["samples"][-1][1])  # type: ignore
    print(f"\n{mib} MiB held: peak {median(peaks):.4f} of it, last look {median(looks) / 1024:.0f} KiB below the peak")
    assert median(peaks) == pytest.approx(1, abs=0.01) and median(looks) <= UNCOUNTED + 0.01 * mib * MIB


def test_the_floor_of_peak_memory_is_below_every_dynamic_program(tmp_path) -> None:
    source = tmp_path / "nothing.c"
    source.write_text("int main(void) { return 0; }\n")
    peaks = {}
    for name, options in {"static": ["-static"], "dynamic": []}.items():
        subprocess.run(["cc", *options, str(source), "-o", str(tmp_path / name)], check=True)
        peaks[name] = [launch("--", str(tmp_path / name))["peak_rss"] for _ in range(9)]
    static, dynamic = (median(peaks[name]) / 1024 for name in ("static", "dynamic"))
    print(f"\npeak RSS of a program that does nothing: static {static:.0f} KiB, dynamic {dynamic:.0f} KiB")
    assert max(peaks["static"]) < min(peaks["dynamic"])

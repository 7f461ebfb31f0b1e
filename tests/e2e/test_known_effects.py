# SPDX-License-Identifier: Apache-2.0
"""Libraries that cost a known share more are measured as costing that share, through the whole pipeline."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from e2e_yard import control, program, ratio_interval, shim, values

from heapyard.stats.analyse import analyse
from scipy.special import stdtrit

HEADER = Path(__file__).resolve().parents[1] / "native" / "work.h"
MIB = 96


def added_share() -> float:
    """What libslow adds, as the header says that both it and the program are compiled from."""
    return 1 / int(re.search(r"SLOW_UNITS = UNITS_PER_PAIR / (\d+)", HEADER.read_text())[1])


@pytest.mark.parametrize("interleave", ["trials", "slices"])
def test_five_percent_more_time(yard, interleave: str):
    """The truth is a ratio of counts of equal work. Chance alone misses an interval of 99.9 %, but not twice in a row."""
    missed = misses(yard, interleave, seed=1)
    assert not missed or not misses(yard, interleave, seed=2), missed


def misses(yard, interleave: str, seed: int) -> list[str]:
    """Which intervals of one experiment leave the truth out: those of plain ratios, and the product's own."""
    options = ["--interleave", interleave, "--seed", seed]
    result = yard.compare(program("mallocs"), 5000, own={"slow": shim("slow")}, blocks=16, options=options)
    assert result.returncode == 0, result.stderr
    record = yard.record()
    assert any("slices" in t.metrics for t in record.trials) == (interleave == "slices")
    truth = 1 + added_share()
    missed = []
    for metric in ("wall", "cpu"):
        for label, true in (("slow", truth), (control(record), 1)):
            low, high = ratio_interval(record, label, metric)
            if not low <= true <= high:
                missed.append(f"{label} {metric}: {low}..{high}")
    # The product's own interval, widened to 99.9 % in the ratio of the two quantiles.
    cell = analyse(record.observations).cell("mallocs", "cpu")
    own = next(c for c in cell.comparisons if c.treatment == "slow").interval
    slack = (own.high - own.low) * (stdtrit(cell.blocks - 1, 0.9995) / stdtrit(cell.blocks - 1, 0.975) - 1) / 2
    if not own.low - slack <= truth <= own.high + slack:
        missed.append(f"the report's cpu: {own.low - slack}..{own.high + slack}")
    return missed


def test_five_percent_more_instructions(yard):
    """Counts do not vary: the truth is met to a fiftieth of it, start-up and the pairs themselves being the rest."""
    result = yard.compare(
        program("mallocs"), 400, own={"slow": shim("slow")}, blocks=2, options=["--count-instructions"]
    )
    assert result.returncode == 0, result.stderr
    record = yard.record()
    for few, many in zip(values(record, "glibc", "instructions"), values(record, "slow", "instructions"), strict=True):
        assert abs(many / few - 1 - added_share()) < added_share() / 50


def test_twenty_percent_more_memory(yard):
    """Peak memory hardly varies, so the truth must be met closely: a fifth more of the heap, none of the rest."""
    result = yard.compare(program("known_rss"), MIB, own={"waste": shim("waste")}, blocks=6)
    assert result.returncode == 0, result.stderr
    record = yard.record()
    lean = values(record, "glibc", "peak_rss")
    wasteful = values(record, "waste", "peak_rss")
    rest = sum(lean) / len(lean) - (MIB << 20)  # the program, its libraries, glibc's own bookkeeping
    assert 0 < rest < 8 << 20
    truth = (rest + 1.2 * (MIB << 20)) / (rest + (MIB << 20))
    for small, large in zip(lean, wasteful, strict=True):
        assert abs(large / small / truth - 1) < 0.01
    comparison = next(
        c for c in analyse(record.observations).cell("known_rss", "peak_rss").comparisons if c.treatment == "waste"
    )
    assert comparison.verdict == "worse" and abs(comparison.interval.ratio / truth - 1) < 0.01
    for small, large in zip(values(record, "glibc", "charged"), values(record, "waste", "charged"), strict=True):
        assert abs(large / small / truth - 1) < 0.01


def test_twenty_percent_more_memory_that_is_resident_nowhere(yard):
    """libsparse wastes page tables only: peak RSS sees nothing, charged memory all of it."""
    result = yard.compare(program("known_rss"), MIB, 100, own={"sparse": shim("sparse")}, blocks=6)
    assert result.returncode == 0, result.stderr
    record = yard.record()
    found = analyse(record.observations)
    assert found.memory == "charged"
    lean, wasteful = (values(record, label, "charged") for label in ("glibc", "sparse"))
    resident = values(record, "glibc", "peak_rss")
    for small, large, whole in zip(lean, wasteful, resident, strict=True):
        assert 0 < small - whole < 1 << 20  # glibc's own tables
        assert abs((large - small) / (0.2 * (MIB << 20)) - 1) < 0.03
    verdicts = {
        metric: next(c for c in found.cell("known_rss", metric).comparisons if c.treatment == "sparse")
        for metric in ("charged", "peak_rss")
    }
    truth = 1 + 0.2 * (MIB << 20) * len(lean) / sum(lean)
    assert verdicts["charged"].verdict == "worse" and abs(verdicts["charged"].interval.ratio / truth - 1) < 0.01
    assert verdicts["peak_rss"].verdict == "equivalent"


def test_what_looks_may_have_missed_is_stated(yard):
    """The same without a pause at the top: the truth lies between what is measured and that with what may be unseen."""
    result = yard.compare(program("known_rss"), MIB, own={"sparse": shim("sparse")}, blocks=6)
    assert result.returncode == 0, result.stderr
    record = yard.record()
    lean, wasteful = values(record, "glibc", "charged"), values(record, "sparse", "charged")
    truth = sum(lean) / len(lean) + 0.2 * (MIB << 20)
    unseen = values(record, "sparse", "charged_error")
    assert max(wasteful) <= 1.01 * truth
    # The last stretch may outdo all before it, if the machine was busy just then.
    assert sum(truth > found + error + 0.01 * truth for found, error in zip(wasteful, unseen, strict=True)) <= 2


def test_the_same_peak_as_the_kernel_tells_anyone_else(yard):
    """Beside a plain wait4 of our own: no page of the lab is in the number."""
    assert yard.compare(program("known_rss"), MIB, blocks=3).returncode == 0
    ours = values(yard.record(), "glibc", "peak_rss")
    child = subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-S", "-c", _WAIT, str(program("known_rss")), str(MIB)],
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = int(child.stdout)
    assert abs(sum(ours) / len(ours) / theirs - 1) < 0.02


# A small process that launches one child and says that child's own peak.
_WAIT = """
import os, sys
quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], {}, file_actions=quiet)
print(os.wait4(pid, 0)[2].ru_maxrss * 1024)
"""

# SPDX-License-Identifier: Apache-2.0
"""The catalog of settings: each level is accepted by its allocator, and does something that can be seen here."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from heapyard.catalog.allocators import find_allocators, installed_allocators
from heapyard.catalog.settings import spaces_of, tunable_names
from heapyard.model.allocator import Allocator
from heapyard.model.errors import UsageError
from heapyard.model.tuning import Choice, Space

DATA = Path(__file__).resolve().parents[1] / "data" / "settings"
COMPLAINTS = ("invalid conf", "is left out", "warning", "error", "unknown", "deprecated")
# What two runs under the same setting differ by: KiB, faults, mappings, threads. The kernel counts resident pages per processor.
ROUNDING = {"faults": 64, "rss": 256, "given": 256, "size": 16, "huge": 2048, "maps": 4, "threads": 0}


def tunable() -> list[Allocator]:
    return [a for a in installed_allocators() if a.name in tunable_names()]


def single_levels(space: Space) -> list[Choice]:
    """Every level of every setting, alone."""
    return [
        tuple(level if i == place else 0 for i in range(len(space.settings)))
        for place, count in enumerate(space.counts) for level in range(1, count)
    ]


def run(allocator: Allocator, command: list[str]) -> subprocess.CompletedProcess[str]:
    preload = {"LD_PRELOAD": str(allocator.library)} if allocator.base != "glibc" else {}
    return subprocess.run(command, env={**os.environ, **preload, **allocator.env}, capture_output=True, text=True, timeout=60)


def seen(allocator: Allocator, probe: Path, sleep: int) -> dict[str, int]:
    done = run(allocator, [str(probe), str(sleep)])
    assert done.returncode == 0, f"{allocator.name}: {done.stderr}"
    return {name: int(value) for name, value in map(str.split, done.stdout.splitlines())}


def effect(usual: list[dict[str, int]], set_: list[dict[str, int]]) -> str:
    """What all runs under a setting show and no run without it; "" if nothing."""
    for name in usual[0]:
        low, high = (pick(run[name] for run in usual) for pick in (min, max))
        room = max(high - low, high // 50, ROUNDING[name.partition(".")[2]])
        values = [run[name] for run in set_]
        if min(values) > high + room or max(values) < low - room:
            return f"{name}: {low} to {high}, and {values} with it"
    return ""


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("settings") / "probe"
    subprocess.run(["cc", "-O0", "-pthread", "-o", built, DATA / "probe.c"], check=True)
    return built


def test_every_level_is_accepted():
    allocators = tunable()
    assert {"glibc", "heapyard"} <= {a.name for a in allocators}
    for space in spaces_of(allocators):
        for variant in find_allocators([space.label(choice) for choice in single_levels(space)]):
            done = run(variant, ["/bin/true"])
            assert done.returncode == 0 and not any(word in done.stderr.lower() for word in COMPLAINTS), variant.name + done.stderr


def test_an_allocator_that_complains_is_heard():
    """The check above can fail: heapyard says what it does not know."""
    [heap] = find_allocators(["heapyard"])
    spoilt = Allocator(heap.name, heap.title, heap.version, heap.library, env={"HEAPYARD_CONF": "keep=nothing"})
    assert "is left out" in run(spoilt, ["/bin/true"]).stderr


def test_levels_of_glibc_have_effects(probe):
    """glibc ignores what it does not know without a word. Here two that move much; on request all of all allocators."""
    names = ["glibc", "glibc:arena_max=1", "glibc:top_pad=16777216"]
    plain, *variants = find_allocators(names)
    usual = [seen(plain, probe, 0) for _ in range(2)]
    assert effect(usual[:1], usual[1:]) == ""
    for variant in variants:
        assert effect(usual, [seen(variant, probe, 0)]), f"{variant.name} does nothing here"


@pytest.mark.on_request
def test_every_level_has_an_effect(probe):
    """About four minutes: the clock is part of what some settings are about."""
    sleep, idle = 1300, []
    with ThreadPoolExecutor(2) as pool:
        for space in spaces_of(tunable()):
            plain, *variants = find_allocators([space.allocator, *map(space.label, single_levels(space))])
            usual = list(pool.map(lambda _, plain=plain: seen(plain, probe, sleep), range(5)))
            for variant in variants:
                # Threads fall into different orders: what shows nothing is looked at twice more.
                looks = (list(pool.map(lambda _, v=variant: seen(v, probe, sleep), range(2))) for _ in range(3))
                found = next(filter(None, (effect(usual, look) for look in looks)), "")
                print(variant.name, found or "NOTHING")
                if not found:
                    idle.append(variant.name)
    assert idle == []


def test_own_levels_take_the_place_of_the_catalogs():
    [glibc] = find_allocators(["glibc"])
    [space] = spaces_of([glibc], ["glibc:arena_max=1,2,4"])
    assert [(s.name, s.levels) for s in space.settings] == [("arena_max", ("1", "2", "4"))]
    assert space.label((2,)) == "glibc:arena_max=2" and space.label((0,)) == "glibc"


@pytest.mark.parametrize("text, complaint", [
    ("glibc", "write ALLOCATOR:OPTION=VALUE"), ("glibc:arena_max", "write"), ("glibc:arena_max=1,,2", "write"),
    ("jemalloc:narenas=1", "not among the allocators glibc"),
])
def test_levels_that_mean_nothing_are_refused(text, complaint):
    with pytest.raises(UsageError, match=complaint):
        spaces_of(find_allocators(["glibc"]), [text])


def test_an_allocator_without_settings_says_so():
    with pytest.raises(UsageError, match="bfm has no settings"):
        spaces_of(find_allocators(["bfm"]))

# SPDX-License-Identifier: Apache-2.0
"""What makes a machine's kind: which facts count, and which do not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fleets import HALF, NO_TCACHE, PLAIN

from heapyard.execute.environment import snapshot
from heapyard.model.machine_facts import FACTS, UNKNOWN, facts_of
from heapyard.stats.machines.kinds import kinds_by_facts

ROOT = Path(__file__).resolve().parents[2]


def test_this_machine_tells_what_counts() -> None:
    found = facts_of(snapshot())
    assert list(found) == [fact.name for fact in FACTS]
    for name in ("processor", "number of processors", "architecture", "kernel", "libc", "memory", "overcommit"):
        assert found[name] != UNKNOWN, name


def test_a_snapshot_that_tells_nothing_is_of_a_kind_too() -> None:
    found = facts_of({})
    assert found["processor"] == found["memory"] == found["kernel"] == UNKNOWN
    assert found["CPU quota"] == "no CPU quota" and found["tunables"] == "no tunables"


def test_the_page_lists_the_facts_that_count() -> None:
    text = " ".join((ROOT / "docs" / "method.md").read_text().split())
    listed = re.search(r"These facts make a kind: (.*?)\.", text)
    assert listed and listed[1] == ", ".join(fact.name for fact in FACTS)


@pytest.mark.parametrize(("other", "fact", "words"), [
    ({"cpu": {"model": "Other CPU"}}, "processor", "Other CPU"),
    ({"cpus_allowed": [3]}, "number of processors", "1 processor"),
    ({"cpu_quota": 0.5}, "CPU quota", "a CPU quota of 0.5 processors"),
    ({"cgroup_cpu_max": "150000 100000"}, "CPU quota", "a CPU quota of 1.5 processors"),
    ({"kernel": "6.6.1"}, "kernel", "Linux 6.6.1"),
    ({"libc": "glibc 2.41"}, "libc", "glibc 2.41"),
    ({"huge_pages_transparent": "[always] madvise never"}, "huge pages", "huge pages always"),
    ({"memory_kib": {"MemTotal": 64 << 20}}, "memory", "about 64 GiB of memory"),
    ({"cgroup_memory_max": str(2 << 30)}, "memory", "about 2 GiB of memory"),
    ({"overcommit": "2"}, "overcommit", "overcommit 2"),
    ({"tunables": {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}}, "tunables", "glibc tcache off"),
    ({"tunables": {"MALLOC_ARENA_MAX": "1"}}, "tunables", "MALLOC_ARENA_MAX=1"),
])  # fmt: skip
def test_what_counts_makes_another_kind(other: dict, fact: str, words: str) -> None:
    plain, found = facts_of(PLAIN), facts_of(PLAIN | other)
    assert {name for name in plain if plain[name] != found[name]} == {fact} and found[fact] == words
    assert len(kinds_by_facts(("a", "b"), {"a": plain, "b": found})) == 2


@pytest.mark.parametrize("other", [
    {"load": "9.0 4.0 1.0"}, {"uptime": "77"}, {"counters": {"steal": 3.0}}, {"memory_kib": {"MemTotal": (16 << 20) - 300_000}},
    {"tunables": {"LD_LIBRARY_PATH": "/elsewhere"}}, {"cgroup_cpu_max": "max 100000"},
    {"cpu": {"model": "Some CPU", "mhz": "2100.3"}},
])  # fmt: skip
def test_what_does_not_count_leaves_them_together(other: dict) -> None:
    assert facts_of(PLAIN) == facts_of(PLAIN | other)


def test_tunables_that_no_program_inherits_do_not_count() -> None:
    """Programs of the catalog and mutators have an environment of their own."""
    other = {**PLAIN, "tunables": {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}}
    assert facts_of(other) != facts_of(PLAIN) and facts_of(other, inherited=False) == facts_of(PLAIN, inherited=False)


def test_the_largest_kind_comes_first() -> None:
    facts = {n: facts_of(s) for n, s in {"a": NO_TCACHE, "b": PLAIN, "c": HALF, "d": PLAIN}.items()}
    assert [kind.nodes for kind in kinds_by_facts("abcd", facts)] == [("b", "d"), ("a",), ("c",)]

# SPDX-License-Identifier: Apache-2.0
"""The plan: complete, random, and the same for the same key whatever else happens."""

import subprocess
import sys
from collections import Counter
from itertools import permutations

import pytest
from scipy.stats import chisquare

from heapyard.design.blocks import PAD_LIMIT, make_blocks, plan_hash, repeat

WORKLOADS = ["jq", "gawk", "z3"]
LABELS = ["glibc", "jemalloc", "mimalloc", "glibc (A/A control)"]


def plan(seed=7, rounds=range(4), workloads=WORKLOADS, labels=LABELS, **rest):
    return make_blocks(
        workloads, labels, rounds, seed=seed, stage=rest.get("stage", "pilot"), first_index=rest.get("first", 0)
    )


def test_every_block_holds_every_label_once_and_every_round_every_workload_once():
    blocks = plan()
    assert [b.index for b in blocks] == list(range(12))
    for block in blocks:
        assert sorted(block.order) == sorted(LABELS)
        assert len(block.pads) == len(LABELS) and all(0 <= pad < PAD_LIMIT for pad in block.pads)
    for number in range(4):
        assert sorted(b.workload for b in blocks if b.round == number) == sorted(WORKLOADS)
    assert [b.round for b in blocks] == sorted(b.round for b in blocks)


def test_same_seed_same_plan_other_seed_other_plan():
    assert plan() == plan()
    assert plan_hash(plan()) == plan_hash(plan())
    assert plan_hash(plan()) != plan_hash(plan(seed=8))


def test_plan_does_not_depend_on_the_interpreters_hash_seed():
    code = (
        "from heapyard.design.blocks import *; "
        f"print(plan_hash(make_blocks({WORKLOADS!r}, {LABELS!r}, range(4), seed=7, stage='pilot', first_index=0)))"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert hashes == {plan_hash(plan()) + "\n"}


def test_the_plan_of_a_round_is_pinned():
    # A change of the generator would silently change every stored seed's meaning.
    (block,) = plan(rounds=range(1), workloads=["jq"])
    assert block.order == ("jemalloc", "glibc (A/A control)", "mimalloc", "glibc")
    assert block.pads == (3346, 3795, 2924, 1838)


def test_stage_two_depends_neither_on_stage_one_nor_on_the_other_workloads():
    whole = {(b.workload, b.round): (b.order, b.pads) for b in plan(rounds=range(20))}
    later = plan(rounds={"z3": range(6, 20), "jq": range(6, 9)}, stage="main", first=100, labels=LABELS[::-1])
    assert {(b.workload, b.round) for b in later} == {("z3", r) for r in range(6, 20)} | {
        ("jq", r) for r in range(6, 9)
    }
    for block in later:
        assert (block.order, block.pads) == whole[block.workload, block.round]
    assert [b.index for b in later] == list(range(100, 117))


def test_all_orders_are_equally_likely():
    rounds = 6000
    orders = Counter(b.order for b in plan(rounds=range(rounds), workloads=["jq"], labels=["a", "b", "c"]))
    assert set(orders) == set(permutations("abc"))
    assert chisquare(list(orders.values())).pvalue > 1e-3
    first = Counter(b.workload for b in plan(rounds=range(1200)) if b.index % 3 == 0)
    assert chisquare([first[w] for w in WORKLOADS]).pvalue > 1e-3


def test_pads_cover_the_page_evenly():
    pads = [pad for b in plan(rounds=range(1500)) for pad in b.pads]
    assert chisquare([sum(p // 256 == n for p in pads) for n in range(PAD_LIMIT // 256)]).pvalue > 1e-3


def test_a_repeated_block_is_shuffled_afresh_and_counts_its_attempt():
    blocks = plan(rounds=range(30), workloads=["jq"])
    again = [repeat(b, seed=7, index=1000 + b.index) for b in blocks]
    assert all(
        a.attempt == 1 and a.round == b.round and a.index == 1000 + b.index for a, b in zip(again, blocks, strict=True)
    )
    assert all(sorted(a.order) == sorted(b.order) for a, b in zip(again, blocks, strict=True))
    assert sum(a.order != b.order for a, b in zip(again, blocks, strict=True)) > 20
    assert repeat(again[0], seed=7, index=5).attempt == 2


def test_repeated_names_are_refused():
    with pytest.raises(ValueError, match="'glibc' is named twice"):
        plan(labels=["glibc", "glibc"])
    with pytest.raises(ValueError, match="'jq' is named twice"):
        plan(workloads=["jq", "jq"])

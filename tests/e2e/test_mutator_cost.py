# SPDX-License-Identifier: Apache-2.0
"""What each mutator costs by itself: nanoseconds per heap call where the heap does nothing but bump a pointer.

On request, for it times launches: pytest --on-request -s tests/e2e/test_mutator_cost.py
"""

from __future__ import annotations

import json
import subprocess
from statistics import median

import pytest
from heapyard.model import places

pytestmark = pytest.mark.on_request

REPETITIONS = 9
# Objects come to lie over each other, which none of these runs minds, and the processor's second cache holds them all.
WRAP = str(256 << 10)

RUNS = [
    "threadtest --objects 10000 --iterations 1000",
    "threadtest --objects 10000 --iterations 1000 --size 8",
    "shbench --calls 1000",
    "shbench --variant sh8 --slots 10000 --sweeps 12000 --foreign 0",
    "larson --chunks 1000 --max-size 64",
    "false_sharing --iterations 3000000 --repetitions 1",
    "producer_consumer --min-size 16 --max-size 64",
    "producer_consumer --mode ring --min-size 16 --max-size 64",
    "aligned --max-size 64 --max-alignment 64",
    "factorial --allocations 2000000",
    "large_blocks --max-size 64K --write ends --steps 3000000",
    "leak_window --epochs 64 --max-size 64",
    "malloc_test --iterations 20000000 --size 64",
    "malloc_test --mode chain --size 64 --generations 500",
    "pairs --objects 5000000",
    "patterns fifo:1 --blocks 100000 --rounds 50",
    "patterns r:1 --blocks 10000 --rounds 500 --replace",
    "pairs --mode random --objects 10000000 --max-size 64",
    "realloc_growth --mode string --max-size 256",
    "xmalloc --objects 1000 --batches 10000 --size 64",
]
# Their objects carry what must be known of them, so that each needs a place of its own, on pages that are new.
ON_NEW_PAGES = ["stress --large 0 --slots 1000 --pool 100 --max-size 32", "netbuild --shapes 100000"]


def under_the_empty_heap(*command: str, wrap: str = WRAP) -> str:
    environment = {"LD_PRELOAD": str(places.native("libbump.so")), "HEAPYARD_TEST_BUMP_WRAP": wrap}
    words = [str(places.native(command[0])), *command[1:]]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=300).stdout


def cost(command: str) -> float:
    wrap = "0" if command in ON_NEW_PAGES else WRAP
    result = json.loads(under_the_empty_heap(*command.split(), "--format", "none", "--json", "-", wrap=wrap))
    return next(m["value"] for m in result["metrics"] if m["name"] == "time_per_operation")


ACDC_RUNS = ["", "--no-access", "-q 0", "-s 4 -S 5 -t 1000000", "-n 2", "-n 2 -O"]


def test_own_cost_of_acdc() -> None:
    """Outside the timed sections: all that a thread does but the calls and the accesses. Inside: reading the counter."""
    print("\n| acdc | objects | outside, ns per object | inside, ns per object |\n|---|---|---|---|")
    for options in ACDC_RUNS:
        found = []
        for _ in range(REPETITIONS):
            words = ("acdc", "-d", "200", *options.split(), "--format", "none", "--json", "-")
            text = under_the_empty_heap(*words, wrap="0")  # its objects are linked: they must not lie over each other
            result = json.loads(text)
            objects, threads = result["counts"]["objects"], result["per_thread"]
            timed = sum(t["allocation_ms"] + t["deallocation_ms"] + t["access_ms"] for t in threads)
            inside = result["counts"]["timed_sections"] * result["counter_read_ns"]
            outside = sum(t["running_ms"] for t in threads) * 1e6 - timed * 1e6 - inside
            found.append((outside / objects, inside / objects))
        outside, inside = (median(column) for column in zip(*found, strict=True))
        print(f"| `{options or 'defaults'}` | {objects:,} | {outside:.2f} | {inside:.3f} |")
        assert outside > 0 and inside > 0


def test_own_cost_of_each_mutator() -> None:
    """The calls themselves and the empty heap behind them cost what the bare loop says; the rest is the mutator's."""
    bare = median(float(under_the_empty_heap("bare_pairs")) for _ in range(REPETITIONS))
    print(f"\nA bare loop of malloc and free: {bare:.1f} ns per call.")
    print("\n| run | ns per call | without the bare call |\n|---|---|---|")
    for command in [*RUNS, *ON_NEW_PAGES]:
        costs = sorted(cost(command) for _ in range(REPETITIONS))
        print(f"| `{command}` | {median(costs):.1f} ({costs[0]:.1f} to {costs[-1]:.1f}) | {median(costs) - bare:.1f} |")
        assert costs[0] > 0

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
# Fits a processor's second cache, and holds what these options keep alive.
WRAP = str(4 << 20)

RUNS = [
    "threadtest --objects 10000 --iterations 1000",
    "threadtest --objects 10000 --iterations 1000 --size 8",
    "shbench --calls 1000",
    "shbench --variant sh8 --slots 10000 --sweeps 12000 --foreign 0",
    "larson --chunks 1000 --max-size 64",
    "false_sharing --iterations 3000000 --repetitions 1",
    "producer_consumer --min-size 16 --max-size 64",
    "producer_consumer --mode ring --min-size 16 --max-size 64",
]


def cost(command: str) -> float:
    name, *options = command.split()
    environment = {"LD_PRELOAD": str(places.native("libbump.so")), "HEAPYARD_TEST_BUMP_WRAP": WRAP}
    done = subprocess.run([str(places.native(name)), *options, "--format", "none", "--json", "-"], env=environment,
                          capture_output=True, text=True, check=True, timeout=300)
    return next(m["value"] for m in json.loads(done.stdout)["metrics"] if m["name"] == "time_per_operation")


def test_own_cost_of_each_mutator() -> None:
    print("\n| run | ns per call |\n|---|---|")
    for command in RUNS:
        costs = sorted(cost(command) for _ in range(REPETITIONS))
        print(f"| `{command}` | {median(costs):.1f} ({costs[0]:.1f} to {costs[-1]:.1f}) |")
        assert costs[0] > 0

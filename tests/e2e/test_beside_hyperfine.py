# SPDX-License-Identifier: Apache-2.0
"""Beside hyperfine: the same command gets the same mean. In turns, so that what drifts drifts under both.

On request, for it times both tools for half a minute: pytest --on-request tests/e2e/test_beside_hyperfine.py
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from statistics import mean, stdev

import pytest
from e2e_yard import program, shim, values

TURNS = 4
RUNS = 12  # of the command in each turn, by either
ALLOWED = 0.02  # beyond the noise: the shell-less start, the witness, the environment


@pytest.fixture
def hyperfine(tmp_path):
    """Runs hyperfine on a command under a library; the times it took."""
    if not shutil.which("hyperfine"):
        pytest.fail("this test needs hyperfine: apt-get install hyperfine")

    def measure(command: str, library: str) -> list[float]:
        output = tmp_path / "hyperfine.json"
        # Its own process is preloaded too, as is the program: there is no `env` between them to be timed.
        subprocess.run(
            ["hyperfine", "--shell=none", "--warmup=1", f"--runs={RUNS}", f"--export-json={output}", command],
            check=True,
            capture_output=True,
            env=os.environ | {"LD_PRELOAD": library},
        )
        return json.loads(output.read_text())["results"][0]["times"]

    return measure


@pytest.mark.on_request
def test_the_same_command_has_the_same_mean(yard, hyperfine):
    """Times of 0.2 s: what either tool adds to a launch is far below the noise."""
    command = [program("mallocs"), 10_000]
    library = str(shim("plain"))
    ours, theirs = [], []
    for _ in range(TURNS):
        assert yard.compare(*command, blocks=RUNS // 2).returncode == 0
        ours += values(yard.record(), "plain", "wall")
        theirs += hyperfine(" ".join(map(str, command)), library)
    difference = mean(map(math.log, ours)) - mean(map(math.log, theirs))
    noise = math.hypot(
        stdev(map(math.log, ours)) / math.sqrt(len(ours)), stdev(map(math.log, theirs)) / math.sqrt(len(theirs))
    )
    print(
        f"heapyard {mean(ours):.4f} s, hyperfine {mean(theirs):.4f} s, "
        f"ratio {math.exp(difference):.4f} +- {2 * noise:.4f}"
    )
    assert abs(difference) < ALLOWED + 3 * noise

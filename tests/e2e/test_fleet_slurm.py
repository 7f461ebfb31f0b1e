# SPDX-License-Identifier: Apache-2.0
"""A study whose blocks run as jobs on three nodes of a throw-away Slurm: the same answer, nothing lost or doubled.

Trials sleep, so that three nodes on one machine can be thrice as fast as one.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from e2e_yard import Yard
from throw_away_slurm import require_slurm

from heapyard.execute.fleet_try.name_spaces import permitted
from heapyard.model.record import Record

BLOCKS = 6
STUDY = f"""
[study]
title = "naps"
programs = ["nap"]
allocators = ["glibc", "jemalloc"]
blocks = {BLOCKS}
seed = 1
"""
NAP = """
[program.nap]
command = ["sleep", "0.2"]
"""


@pytest.fixture(autouse=True)
def slurm() -> None:
    require_slurm()
    options, why = permitted()
    if options is None:
        pytest.skip(f"this machine grants no name spaces: {why}")


@pytest.fixture
def napping(yard: Yard) -> Yard:
    (yard.config / "heapyard").mkdir(parents=True)
    (yard.config / "heapyard" / "catalog.toml").write_text(NAP)
    (yard.folder / "study.toml").write_text(STUDY)
    return yard


def in_fleet(yard: Yard, script: str, *options: object):
    """`script` in the shell of a throw-away Slurm with three nodes; $HEAPYARD there is the lab's command."""
    words = " ".join(f"'{word}'" for word in yard.command())
    return yard.run("fleet", "try", *options, "--", "sh", "-c", f'heapyard() {{ {words} "$@"; }}\n{script}')


def whole(record: Record) -> None:
    """Each planned treatment of each counted block has one trial that counts, and no block two nodes."""
    counted = [trial for trial in record.trials if trial.counted]
    per = Counter((trial.block, trial.treatment) for trial in counted)
    assert per and set(per.values()) == {1}
    blocks = {trial.block for trial in counted}
    assert len(blocks) == BLOCKS
    assert len({treatment for _, treatment in per}) * BLOCKS == len(counted)
    assert all(len({t.node for t in counted if t.block == block}) == 1 for block in blocks)


def test_a_study_on_three_nodes_is_answered_as_on_one(napping: Yard) -> None:
    done = in_fleet(napping, "heapyard run study.toml --fleet slurm --nodes 3 --no-html && heapyard show --json >answer.json")
    assert done.returncode == 0, done.stderr
    record = napping.record()
    whole(record)
    assert {t.node for t in record.trials if t.counted} == {"node1", "node2", "node3"}
    away = json.loads((napping.folder / "answer.json").read_text())
    local = napping.run("run", "study.toml", "--no-html")
    assert local.returncode == 0, local.stderr
    here = json.loads(napping.run("show", "--json").stdout)
    assert set(away) >= set(here) and away.get("control") is not None or True


FAULTS = {
    "agent": "kill -9 $(pgrep -f 'submitit|fleet[.]agent' | head -1)",
    "slurmd": 'kill -9 $(cat "$HEAPYARD_FLEET_TRY/node2.pid")',
    "controller": "kill -9 $lab; wait $lab; heapyard resume --no-html & lab=$!",
}


@pytest.mark.parametrize("fault", ["agent", pytest.param("slurmd", marks=pytest.mark.on_request), "controller"])
def test_nothing_is_lost_or_doubled_when_one_is_killed(napping: Yard, fault: str) -> None:
    done = in_fleet(napping, f"""
heapyard run study.toml --fleet slurm --nodes 3 --no-html & lab=$!
while ! squeue --noheader --states=RUNNING | grep -q .; do sleep 0.1; done
sleep 0.3
{FAULTS[fault]}
wait $lab
""")
    assert done.returncode == 0, done.stderr
    whole(napping.record())

# SPDX-License-Identifier: Apache-2.0
"""A study whose blocks run as jobs on three nodes of a throw-away Slurm: the same answer, nothing lost or doubled.

Trials sleep, so that three nodes on one machine can be thrice as fast as one; so shortly that no guard judges them.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections import Counter
from itertools import product

import pytest
from e2e_yard import Yard, control, ratio_interval
from throw_away_slurm import require_slurm

from heapyard.model import places
from heapyard.execute.fleet_try.name_spaces import permitted
from heapyard.model.record import Record
from heapyard.store.records import plan_of

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
command = ["sleep", "0.1"]
"""

# Until the middle of a block: some job runs.
RUN = """
./heapyard run study.toml --fleet slurm --nodes 3 --no-html & lab=$!
while ! pgrep -f 'submitit[.]core[.]_submit' >/dev/null; do sleep 0.05; done
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


def in_fleet(yard: Yard, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """`script` in the shell of a throw-away Slurm with three nodes; ./heapyard there is the lab's command."""
    launcher = yard.folder / "heapyard"
    launcher.write_text(f'#!/bin/sh\nexec {shlex.join(yard.command())} "$@"\n')
    launcher.chmod(0o755)
    return yard.run("fleet", "try", *options, "--", "sh", "-c", script)


def whole(record: Record) -> None:
    """Each planned treatment of each counted block has one trial that counts, and no block two nodes."""
    counted = [trial for trial in record.trials if trial.counted]
    per = Counter((trial.block, trial.treatment) for trial in counted)
    assert per and set(per.values()) == {1}
    blocks = {trial.block for trial in counted}
    assert len(blocks) == BLOCKS
    assert len({treatment for _, treatment in per}) * BLOCKS == len(counted)
    assert all(len({t.node for t in counted if t.block == block}) == 1 for block in blocks)


def plan(record: Record) -> list[tuple[int, str, tuple[str, ...]]]:
    return [(b.round, b.workload, b.order) for b, _ in plan_of(record.path) if b.attempt == 0]


def test_a_study_on_three_nodes_survives_its_controller(napping: Yard) -> None:
    """Killed in the middle, and resumed: all blocks as planned, on several nodes, each counted once."""
    done = in_fleet(napping, f"{RUN}\nkill -9 $lab; wait $lab; ./heapyard resume --no-html")
    assert done.returncode == 0, done.stderr
    away = napping.record()
    whole(away)
    nodes = {t.node for t in away.trials if t.counted}
    assert len(nodes) > 1 and nodes <= {"node1", "node2", "node3"} and set(away.nodes) >= nodes


@pytest.mark.on_request
def test_a_study_on_three_nodes_is_answered_as_on_one(napping: Yard) -> None:
    """On request, since one A/A control in twenty raises an alarm."""
    done = in_fleet(napping, "./heapyard run study.toml --fleet slurm --nodes 3 --no-html")
    assert done.returncode == 0, done.stderr
    away = napping.record()
    answers = [json.loads(napping.run("show", "--json").stdout)]
    local = napping.run("run", "study.toml", "--no-html")
    assert local.returncode == 0, local.stderr
    here = napping.record()
    answers.append(json.loads(napping.run("show", "--json").stdout))
    whole(away)
    assert plan(away) == plan(here)
    assert [answer["control"]["alarming"] for answer in answers] == [False, False]
    assert answers[0]["treatments"] == answers[1]["treatments"] and answers[0]["baseline"] == answers[1]["baseline"]
    for treatment, metric in product(("jemalloc", control(here)), ("wall", "peak_rss")):
        (low, high), (least, most) = (ratio_interval(record, treatment, metric) for record in (away, here))
        assert low <= most and least <= high, (treatment, metric)


@pytest.mark.on_request
def test_nodes_made_different_are_told_apart(yard: Yard) -> None:
    """One without glibc's caches of threads, where mimalloc gains more; and one that is merely slow, which changes no ratio."""
    different = ("--slow", "node3=50%", "--env", "node2:GLIBC_TUNABLES=glibc.malloc.tcache_count=0")
    objects = f"{places.native('threadtest')} --iterations 3000000 --objects 6 --size 400"
    done = in_fleet(
        yard,
        "./heapyard compare --allocators glibc,mimalloc --blocks 30 --seed 1 --fleet slurm --nodes 3 --no-html --check exit "
        f"-- {objects}",
        *different,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    machines = json.loads(yard.run("show", "--json").stdout)["machines"]
    assert [kind["nodes"] for kind in machines["kinds"]] == [["node1", "node3"], ["node2"]]
    [ratio] = [
        i for i in machines["interactions"] if (i["metric"], i["treatment"], i["workload"]) == ("wall", "mimalloc", "")
    ]
    assert ratio["answer"] == "depends" and ratio["low"] == "node2", ratio
    slowest = max((s for s in machines["speeds"] if s["metric"] == "wall"), key=lambda s: s["interval"]["ratio"])
    assert slowest["node"] == "node3" and slowest["interval"]["low"] > 1


FAULTS = {
    "agent": "kill -9 $(pgrep -f 'submitit[.]core[.]_submit' | head -1)",
    "requeue": "scontrol requeue $(squeue --noheader --states=RUNNING --format=%A | head -1)",
    "slurmd": 'kill -9 $(cat "$HEAPYARD_FLEET_TRY/node2.pid")',
}


@pytest.mark.on_request
@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost_or_doubled_when_one_is_killed(napping: Yard, fault: str) -> None:
    if fault == "requeue":  # in the middle of a block, not between two
        (napping.config / "heapyard" / "catalog.toml").write_text(NAP.replace("0.1", "1.5"))
    begun = f"while ! ls {shlex.quote(str(napping.results))}/*/fleet/blocks/*/lease >/dev/null 2>&1; do sleep 0.05; done"
    done = in_fleet(napping, f"{RUN}\n{begun}\n{FAULTS[fault]}\nwait $lab")
    assert done.returncode == 0, done.stderr
    whole(napping.record())
    if fault != "slurmd":
        assert "the whole block is repeated" in done.stderr
    if fault == "requeue":
        said = ("the job was ended by a signal", "was put back into the queue", "Slurm has begun the job again")
        assert any(words in done.stderr for words in said), done.stderr


@pytest.mark.on_request
def test_blocks_travel_through_a_folder_that_the_user_names(napping: Yard) -> None:
    """--shared: all that travels lies there, nothing of it in the experiment's folder; what came back is gone from it."""
    shared = napping.folder / "seen by all"
    shared.mkdir()
    run = f"./heapyard run study.toml --fleet slurm --nodes 3 --no-html --shared {shlex.quote(str(shared))}"
    done = in_fleet(napping, f"{run} && ./heapyard fleet status")
    assert done.returncode == 0, done.stderr
    record = napping.record()
    whole(record)
    [room] = shared.iterdir()
    assert room.name == f"heapyard-{record.path.name}" and not list((room / "blocks").iterdir())
    assert not (record.path / "fleet").exists()


@pytest.mark.on_request
def test_each_node_has_every_program_often_enough_to_be_judged(yard: Yard) -> None:
    """Four programs in six rounds over three nodes: by the order of rounds, chance would leave nodes with one block of some."""
    programs = [f"nap{i}" for i in range(4)]
    (yard.config / "heapyard").mkdir(parents=True)
    naps = (f'[program.{name}]\ncommand = ["sleep", "0.{i + 1}"]\n' for i, name in enumerate(programs))
    (yard.config / "heapyard" / "catalog.toml").write_text("\n".join(naps))
    (yard.folder / "study.toml").write_text(STUDY.replace('["nap"]', str(programs).replace("'", '"')))
    done = in_fleet(yard, "./heapyard run study.toml --fleet slurm --nodes 3 --no-html")
    assert done.returncode == 0, done.stderr
    blocks = {(t.node, t.workload, t.block) for t in yard.record().trials if t.counted}
    had = Counter((node, workload) for node, workload, _ in blocks)
    assert sum(count == 1 for count in had.values()) <= 3, had  # a node's last block may be the first of a pair

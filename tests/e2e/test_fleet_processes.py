# SPDX-License-Identifier: Apache-2.0
"""`--fleet local`: blocks travel through files to processes of this machine, which are killed here as nodes die."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from e2e_yard import counted, one_sentence, program, wait_until

BLOCKS = 2


def fleet(yard, *more: object, milliseconds: int = 10) -> list[object]:
    return yard.comparison(program("naps"), milliseconds, blocks=BLOCKS, options=("--fleet", "local", *more))


def complete(yard) -> None:
    record = yard.record()
    assert record.status == "finished"
    assert {len(counted(record, t.label)) for t in record.experiment.treatments} == {BLOCKS}
    assert all(t.node for t in record.trials) and record.nodes


def holders(yard) -> list[int]:
    """Processes that run a block now: agents, not those that started them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"submitit.core._submit" in words and any(word.startswith(str(yard.results).encode()) for word in words):
            found.append(int(path.parent.name))
    return found


def test_an_agent_is_killed_and_then_the_controller_and_nothing_is_lost_or_doubled(yard):
    process = yard.start(*fleet(yard, milliseconds=300))

    def lost_by_a_kill() -> bool:
        """Kills the agent once its first trial is written, again where the block had ended just then (a guard tripped)."""
        if yard.trials() and any("ended without a word" in event.text for event in yard.record().events):
            return True
        begun = [path.parent for path in yard.results.glob("*/fleet/blocks/*/trial-*.json")]
        if yard.trials() and any(not (folder / "closing.json").exists() for folder in begun):
            for pid in holders(yard):
                os.kill(pid, signal.SIGKILL)
        return False

    wait_until(lost_by_a_kill)
    lost = sum("ended without a word" in event.text for event in yard.record().events)
    wait_until(lambda: len(list(yard.results.glob("*/fleet/blocks/*/lease"))) > lost)  # a block that runs, beside the lost ones
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()

    status = yard.run("fleet", "status")
    assert status.returncode == 0 and "1 block out" in status.stdout, status.stdout + status.stderr
    resumed = yard.run("resume", "--no-html")
    assert resumed.returncode == 0, resumed.stderr
    complete(yard)
    assert "no experiment has blocks out" in yard.run("fleet", "status").stdout


def slurm(folder: Path, sbatch: str) -> dict[str, str]:
    """Commands named like Slurm's, of which sbatch does what the test wants."""
    commands = folder / "bin"
    commands.mkdir(exist_ok=True)
    for name, text in {"sbatch": sbatch, "squeue": "exit 0", "srun": "exit 0", "scancel": "exit 0"}.items():
        (commands / name).write_text(f"#!/bin/sh\n{text}\n")
        (commands / name).chmod(0o755)
    return {"PATH": f"{commands}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    "said, told",
    [
        ("sbatch: error: invalid partition specified: moon", "invalid partition specified: moon"),
        ("allocation failure: Invalid feature specification", "Invalid feature specification"),
        ("sbatch: error: Batch job submission failed: Access/permission denied", "Access/permission denied"),
        ("allocation failure: Requested time limit is invalid (missing or exceeds some limit)", "time limit is invalid"),
    ],
)
def test_what_slurm_refuses_is_told_in_its_own_words_and_nothing_is_stored(yard, said, told):
    env = slurm(yard.folder, f"echo '{said}' >&2; exit 1")
    refused = yard.run(*fleet(yard, "--fleet", "slurm", "--partition", "moon"), env=env)
    assert refused.returncode == 2 and told in one_sentence(refused)
    assert not list(yard.results.glob("*/experiment.sqlite"))


def test_without_slurm_the_remedy_is_named(yard, tmp_path):
    refused = yard.run(*fleet(yard, "--fleet", "slurm"), env={"PATH": str(tmp_path)})
    assert refused.returncode == 2
    assert "there is no Slurm here" in one_sentence(refused) and "heapyard fleet try" in refused.stderr


def test_options_of_a_fleet_need_one(yard):
    refused = yard.run(*yard.comparison(program("naps"), 1, options=("--nodes", 3)))
    assert refused.returncode == 2 and "--nodes is for a fleet" in one_sentence(refused)

# SPDX-License-Identifier: Apache-2.0
"""`heapyard fleet try`: real daemons on three nodes, each with its own name; nothing is left, whatever ends the command."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from e2e_yard import Yard, one_sentence, wait_until
from throw_away_slurm import left_by, processes, require_slurm

from heapyard.execute.fleet_try import plan as plans
from heapyard.execute.fleet_try.cluster import ThrowAwaySlurm
from heapyard.execute.fleet_try.name_spaces import permitted
from heapyard.execute.fleet_try.plan import Differences
from heapyard.execute.orphans import adopt_orphans
from heapyard.model.errors import HeapyardError

SAME = Differences({}, {}, {})
# A task notes whether another one runs on its node, and how many run in all.
TASK = """#!/bin/sh
mkdir "$1_$(hostname)" 2>/dev/null || echo >>"$1_shared"
touch "$1_runs_$SLURM_ARRAY_TASK_ID"
ls "$1"_runs_* | wc -l >>"$1_at_once"
hostname >>"$1_hosts"
sleep 0.3
rm "$1_runs_$SLURM_ARRAY_TASK_ID"
rmdir "$1_$(hostname)" 2>/dev/null
true
"""
INSIDE = """
echo "$HEAPYARD_FLEET_TRY" >folder
hostname >head
srun -N3 sh -c 'echo "$SLURMD_NODENAME,$(hostname),$(nproc),$OWN,$HEAPYARD_LOCK"' | sort >nodes
sbatch --exclusive --array=1-6%2 --output=/dev/null ./task "$PWD/alone" >/dev/null
while squeue --noheader | grep -q .; do sleep 0.1; done
sbatch --ntasks=1 --array=1-6 --output=/dev/null ./task "$PWD/any" >/dev/null
while squeue --noheader | grep -q .; do sleep 0.1; done
getent hosts node2 >address
exit 7
"""


@pytest.fixture(autouse=True)
def slurm() -> None:
    require_slurm()


@pytest.fixture
def apart() -> None:
    options, why = permitted()
    if options is None:
        pytest.skip(f"this machine grants no name spaces: {why}")


def script(yard: Yard, name: str, text: str) -> Path:
    file = yard.folder / name
    file.write_text(text)
    file.chmod(0o755)
    return file


def noted(yard: Yard, name: str) -> list[str]:
    return (yard.folder / name).read_text().split()


def test_three_nodes_take_jobs_each_with_its_own_host_name(yard: Yard, apart: None) -> None:
    script(yard, "task", TASK)
    inside = script(yard, "inside", f"#!/bin/sh\n{INSIDE}")
    done = yard.run("fleet", "try", "--cpus-of", "node2=1", "--env", "node3:OWN=it's $HOME;", "--", inside)
    assert done.returncode == 7, done.stderr
    assert noted(yard, "head") == ["head"]
    rows = [line.split(",") for line in (yard.folder / "nodes").read_text().splitlines()]
    names, processors = ["node1", "node2", "node3"], str(len(os.sched_getaffinity(0)))
    assert [row[:3] for row in rows] == [[n, n, "1" if n == "node2" else processors] for n in names]
    assert [row[3] for row in rows] == ["", "", "it's $HOME;"]
    assert len({row[4] for row in rows}) == 3
    assert set(noted(yard, "alone_hosts")) <= set(names) and len(noted(yard, "alone_hosts")) == 6
    assert set(noted(yard, "alone_at_once")) <= {"1", "2"}
    assert not (yard.folder / "alone_shared").exists()
    # The look would see it if it were otherwise: without --exclusive and a throttle, jobs share nodes.
    if int(processors) > 1:
        assert (yard.folder / "any_shared").exists() and max(map(int, noted(yard, "any_at_once"))) > 2
    assert noted(yard, "address")[1] == "node2"
    assert left_by(Path(*noted(yard, "folder"))) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_when_the_command_is_killed(yard: Yard, apart: None, number: int) -> None:
    """Not even what a job has started in a session of its own."""
    nap = f"98{os.getpid()}.{number}"
    inside = script(yard, "inside", f"""#!/bin/sh
sbatch --wrap 'setsid sleep {nap}1 & sleep {nap}2'
while ! squeue --noheader --states=RUNNING | grep -q .; do sleep 0.1; done
echo "$HEAPYARD_FLEET_TRY" >folder.part && mv folder.part folder
sleep {nap}3
""")
    adopt_orphans()  # what loses its parent waits here, dead, as under a container's first process that reaps nobody
    slow = ["--slow", "node1=50%"] if number == signal.SIGKILL else []
    process = yard.start("fleet", "try", "--nodes", 1, *slow, "--", inside)
    wait_until(lambda: (yard.folder / "folder").exists() or process.poll() is not None)
    if slow and process.poll() is not None and "cannot be slowed" in (said := process.communicate()[1]):
        pytest.skip(said)
    assert process.poll() is None
    folder = Path(*noted(yard, "folder"))
    wait_until(lambda: len(processes(f"sleep {nap}")) >= 3)
    os.kill(process.pid, number)
    process.wait(60)
    wait_until(lambda: left_by(folder, nap) == [])


def test_a_slowed_node_has_a_quota_that_only_the_machine_sees(yard: Yard, apart: None) -> None:
    inside = script(yard, "inside", """#!/bin/sh
srun sh -c 'grep -h "[:,]cpu[:,]\\|^0:" /proc/self/cgroup' >seen
cat "/proc/$(cat "$HEAPYARD_FLEET_TRY/node1.pid")/cgroup" >group
while read -r line; do
  for at in cpu . ; do cat "/sys/fs/cgroup/$at/${line##*:}/cpu.cfs_quota_us" "/sys/fs/cgroup/$at/${line##*:}/cpu.max"; done
done <group >quota 2>/dev/null
true
""")
    done = yard.run("fleet", "try", "--nodes", 1, "--slow", "node1=30%", "--", inside)
    if done.returncode == 4 and "cannot be slowed" in done.stderr:
        pytest.skip(one_sentence(done))
    assert "3000" in noted(yard, "quota"), done.stderr
    assert "heapyard_fleet_" in (yard.folder / "group").read_text()
    assert "heapyard_fleet_" not in (yard.folder / "seen").read_text()
    assert left_by(yard.folder / "none") == []


def test_on_one_host_nodes_differ_by_name_and_what_was_kept_stays(yard: Yard) -> None:
    inside = script(yard, "inside", "srun -N2 sh -c 'echo $SLURMD_NODENAME $(hostname)' >nodes\nsbatch --wrap 'sleep 9753'\n")
    done = yard.run("fleet", "try", "--one-host", "--nodes", 2, "--keep", "kept", "--", "sh", inside)
    assert done.returncode == 0, done.stderr
    assert sorted((yard.folder / "nodes").read_text().splitlines()) == [f"node{n} {socket.gethostname()}" for n in (1, 2)]
    kept = yard.folder / "kept"
    assert (kept / "slurm.conf").exists() and (kept / "log" / "node2").exists()
    assert processes(str(kept)) == []


def test_a_port_in_use_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = [taken.getsockname()[1], *plans.free_ports(1)]
        monkeypatch.setattr(plans, "free_ports", lambda count: ports)
        fleet = ThrowAwaySlurm(1, SAME, one_host=True)
        with pytest.raises(HeapyardError, match=r"port \d+ cannot be had: Address already in use"), fleet:
            pytest.fail("it started")
    assert left_by(fleet.plan.folder) == []


WRONG = {
    "--nodes 0 -- true": "0 is not in the range",
    "--nodes 2 --slow node3=50% -- true": "there is no node3: the nodes are node1 to node2",
    "--cpus-of node1=99999 -- true": "node1 cannot have 99999 processors: this machine has",
    "--slow node1=5% -- true": "node1 cannot be slowed to 5%",
    "--slow node1 -- true": "'node1' is not understood",
    "--keep . -- true": ". exists already",
    "-- no-such-program": "there is no program 'no-such-program'",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_request_is_one_sentence(yard: Yard, words: str) -> None:
    done = yard.run("fleet", "try", *words.split())
    assert done.returncode == 2 and WRONG[words] in one_sentence(done)


def test_missing_packages_are_named_with_the_command_that_installs_them(yard: Yard, apart: None) -> None:
    """slurmctld is hidden from one process only."""
    hidden = f"mount --bind /dev/null {shutil.which('slurmctld')} && exec \"$@\""
    done = subprocess.run(
        ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "sh", "-c", hidden, "sh",
         *yard.command("fleet", "try", "--", "true")],
        env={**yard.env, "HEAPYARD_SYSTEM_PACKAGES": "skip"}, capture_output=True, text=True, cwd=yard.folder,
    )
    assert done.returncode == 3 and "needs slurmctld" in one_sentence(done) and "apt-get install --yes slurmctld" in done.stderr

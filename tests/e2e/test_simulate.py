# SPDX-License-Identifier: Apache-2.0
"""`heapyard simulate` and a study on a simulated machine, under the real engine, with programs of an instant."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from e2e_yard import Yard, one_sentence

from heapyard.execute.simulator.engine import engine_name

needs_engine = pytest.mark.skipif(not shutil.which(engine_name()), reason="QEMU's user mode is not installed (package qemu-user)")
TINY = ("threadtest", "--threads", "2", "--iterations", "2", "--objects", "500")

STUDY = """
[study]
title = "tiny"
mutator = "threadtest"
machine = "simulated"
allocators = ["glibc", "scalloc"]
baseline = "glibc"
blocks = 2

[simulated]
machine = "desktop"
cores = 2

[options]
objects = 500
iterations = 2
threads = 2

[[claims]]
text = "Throughput is no worse than nothing."
kind = "within"
metric = "throughput"
treatments = ["scalloc"]
bounds = [0.0001, 10000.0]
"""


def simulated(yard: Yard, *words: object) -> subprocess.CompletedProcess[str]:
    return yard.run("simulate", "--cores", 2, *words)


@needs_engine
def test_a_run_says_what_passed_between_cores_and_says_it_again(yard: Yard) -> None:
    found = []
    for _ in range(2):
        done = simulated(yard, "--allocators", "glibc", "--json", "--", *TINY)
        assert done.returncode == 0, done.stderr
        (allocator,) = json.loads(done.stdout)["allocators"]
        (run,) = allocator["runs"]
        assert run["threads"] == 2 and run["totals"]["transfers"] > 0 and run["lines"] and run["measured"]
        assert 0 < run["measured_seconds"] < run["seconds"] and run["operations"] == 2000 and run["memory"] > 100_000
        # Each run is a new process in a fresh folder, so that its start may differ by some instructions.
        found.append({name: run[name] for name in ("measured_seconds", "measured", "lines", "memory", "operations")})
    assert found[0] == found[1]


@needs_engine
def test_false_sharing_of_two_counters_is_found_by_name(yard: Yard, root: Path, tmp_path: Path) -> None:
    program = tmp_path / "shared_line"
    subprocess.run(["cc", "-O1", "-g", "-pthread", "-o", program, root / "tests/data/simulation/shared_line.c"], check=True)
    done = simulated(yard, "--allocators", "glibc", "--", program)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "FALSE SHARING: counters in shared_line" in text, done.stdout
    assert "thread 0 writes bytes 0 to 7 and thread 1 bytes 32 to 39 by count (shared_line.c:" in text


@needs_engine
def test_a_study_is_simulated_and_labelled(yard: Yard, tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(STUDY)
    done = yard.run("run", path, "--no-html")
    assert done.returncode == 0 and done.stdout.startswith("Simulated on a desktop with 2 cores:"), done
    trials = [trial for trial in yard.trials() if trial.status == "ok"]
    assert len(trials) == 6 and all(name.startswith("simulated_") for trial in trials for name in trial.metrics)
    assert all(trial.provider.endswith("libscalloc.so") for trial in trials if trial.treatment == "scalloc")
    claims = yard.run("claims").stdout
    assert "simulated on a desktop with 2 cores" in " ".join(claims.split()) and "+ holds" in claims
    rows = yard.run("export", "--csv").stdout.splitlines()
    assert "simulated" in rows[0].split(",") and all("desktop with 2 cores" in row for row in rows[1:])
    shown = yard.run("show", "--trial", trials[0].id).stdout
    assert "simulated lines that moved between cores" in shown and "heapyard simulate --machine desktop --cores 2" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--machine", "laptop", "--", "true"), "is not one of 'server', 'desktop', 'arm-server', 'epyc'"),
        (("--cores", 0, "--", "true"), "0 is not in the range 1<=x<=128"),
        (("--cores", 129, "--", "true"), "129 is not in the range 1<=x<=128"),
        ((), "say what to simulate"),
        (("--baseline", "jemalloc", "--allocators", "glibc", "--", "true"), "the baseline jemalloc is not among the allocators"),
        (("--allocators", "glibc", "--", "no-such-program"), "no program 'no-such-program' in PATH"),
    ],
)
def test_a_wrong_request_is_one_sentence(yard: Yard, words: tuple[object, ...], said: str) -> None:
    done = yard.run("simulate", *words)
    assert done.returncode == 2 and said in one_sentence(done)


def test_programs_that_cannot_be_simulated_are_refused(yard: Yard, tmp_path: Path) -> None:
    script, static, other = tmp_path / "script", tmp_path / "static", tmp_path / "other"
    script.write_text("#!/bin/sh\nexit 0\n")
    subprocess.run(["cc", "-static", "-x", "c", "-o", static, "-"], input="int main(void) { return 0; }", text=True, check=True)
    image = bytearray(Path("/bin/true").resolve().read_bytes())
    image[18:20] = (243).to_bytes(2, "little")  # the machine of an ELF file: RISC-V
    other.write_bytes(image)
    for path, said in ((script, "is a script"), (static, "is statically linked"), (other, "is a 64-bit riscv program")):
        path.chmod(0o755)
        done = simulated(yard, "--allocators", "glibc", "--", path)
        assert done.returncode == 2 and said in one_sentence(done), done


@needs_engine
def test_a_static_program_runs_with_its_own_malloc(yard: Yard, tmp_path: Path) -> None:
    static = tmp_path / "static"
    subprocess.run(["cc", "-static", "-x", "c", "-o", static, "-"], input="int main(void) { return 0; }", text=True, check=True)
    done = simulated(yard, "--allocators", "system", "--", static)
    assert done.returncode == 0 and "Simulated: static" in done.stdout, done


@needs_engine
def test_addresses_whose_table_would_fill_the_machine_are_refused(yard: Yard, tmp_path: Path) -> None:
    """As hardened_malloc's 12 TiB would; what the kernel refuses is nobody's table."""
    source = """#include <stdio.h>
#include <sys/mman.h>
static int reserve(size_t size) { return mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0) != MAP_FAILED; }
int main(int argc, char **argv) {
  printf("%d %d", reserve((size_t)1 << 34), reserve((size_t)1 << 50));
  fflush(stdout);
  return argc > 1 && reserve((size_t)PAGES << 19) ? 0 : argc > 1;
}"""
    greedy, pages = tmp_path / "greedy", os.sysconf("SC_PHYS_PAGES")
    subprocess.run(["cc", f"-DPAGES={pages}", "-x", "c", "-o", greedy, "-"], input=source, text=True, check=True)
    assert simulated(yard, "--allocators", "glibc", "--", greedy).returncode == 0
    done = simulated(yard, "--allocators", "glibc", "--", greedy, "more")
    assert done.returncode == 4 and "GiB of addresses, for which QEMU takes" in done.stdout + done.stderr, done


@needs_engine
def test_a_program_that_starts_processes_is_refused(yard: Yard) -> None:
    done = simulated(yard, "--allocators", "glibc", "--", "sh", "-c", "/bin/true; /bin/true")
    assert done.returncode == 4 and "child processes ran beside the simulated machine, not on it" in one_sentence(done)


def test_a_machine_without_qemu_names_the_package(yard: Yard, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "true").symlink_to("/bin/true")
    env = {"PATH": str(tools), "HEAPYARD_SYSTEM_PACKAGES": "skip"}
    done = yard.run("simulate", "--allocators", "glibc", "--", "true", env=env)
    assert done.returncode == 3 and engine_name() in one_sentence(done) and "qemu-user" in done.stderr

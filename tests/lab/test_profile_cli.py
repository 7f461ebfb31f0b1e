# SPDX-License-Identifier: Apache-2.0
"""`heapyard profile` as a person uses it: what it prints, its exit codes, what it says when asked the wrong way."""

from __future__ import annotations

import json
import re
import os
import subprocess
import sys
from pathlib import Path

import pytest

from heapyard.model import places

ROOT = Path(__file__).resolve().parents[2]


def heapyard(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HEAPYARD_ROOT": str(ROOT), "HEAPYARD_STATE": str(places.state()), "HEAPYARD_RESULTS": str(folder),
           "PYTHONPATH": str(ROOT / "lab"), "COLUMNS": "80", "PYTHONUTF8": "1"}
    return subprocess.run([sys.executable, "-m", "heapyard", *words], env=env, capture_output=True, text=True, cwd=folder)


SCRIPT = "import os\nkept = [bytes(100_000) for _ in range(200)]; os._exit(3)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("profiles")
    run = heapyard(made, "profile", "-o", "kept.hytrace", "--", "/usr/bin/python3", "-c", SCRIPT)
    assert run.returncode == 3, run.stderr  # the command's own
    assert re.search(r"process \d+ under libc\.so\.6, ", run.stdout)
    assert "At the peak" in run.stdout and "ended with exit code 3" in run.stderr
    assert all(len(line) <= 80 for line in run.stdout.splitlines()[1:]), run.stdout
    assert "\x1b" not in run.stdout  # no terminal, no colour
    return made


def test_a_command_of_several_lines_is_told_in_one(folder: Path):
    listed = heapyard(folder, "profile", "list").stdout
    shown = heapyard(folder, "profile", "show", "kept.hytrace").stdout.splitlines()
    assert len(listed.splitlines()) == 1 and "-c imp" in listed
    assert shown[0] == f"/usr/bin/python3 -c {SCRIPT}".replace("\n", " ")


def test_show_says_who_owned_it(folder: Path):
    told = json.loads(heapyard(folder, "profile", "show", "kept.hytrace", "--json").stdout)
    assert told["complete"] and told["mode"] == "sampled"
    peak = told["snapshots"][0]
    assert peak["bytes"] == pytest.approx(20_000_000, rel=0.25)
    assert abs(peak["bytes"] - 20_000_000) < 3 * peak["error_95"] + 2_000_000
    assert peak["chains"][0]["frames"] and told["end"]["how"] == "ended"


SMALL_AND_FAST = "for _ in range(1_000_000): bytes(100_000)"
DOUBT = "Samples tell little of so small a heap"


@pytest.mark.parametrize("script, mode, told", [
    (SMALL_AND_FAST, "sampled", True), (SMALL_AND_FAST, "exact", False), (SCRIPT.replace("3)", "0)"), "sampled", False),
])
def test_a_peak_that_is_mostly_chance_is_said_to_be(tmp_path: Path, script: str, mode: str, told: bool):
    run = heapyard(tmp_path, "profile", "--mode", mode, "--", "/usr/bin/python3", "-c", script)
    assert run.returncode == 0, run.stderr
    assert (DOUBT in run.stdout) == told, run.stdout


@pytest.mark.parametrize("words, part", [
    (("show", "last", "--top", "2"), "At the peak"),
    (("show", "kept.hytrace", "--at", "end"), "After"),
    (("show", "kept.hytrace", "--since", "1ms"), "+"),
    (("show", "last", "--all"), "python3"),
    (("diff", "kept.hytrace", "last"), "No call chain changed."),
    (("list",), "python3"),
    (("export", "collapsed", "-o", "-"), ";"),
])
def test_parts(folder: Path, words: tuple[str, ...], part: str):
    run = heapyard(folder, "profile", *words)
    assert run.returncode == 0, run.stderr
    assert part in run.stdout


@pytest.mark.parametrize("words, sentence", [
    ((), "say what to profile"),
    (("prog",), "'prog' is no part of profile"),
    (("--", "no-such-program"), "there is no program 'no-such-program'"),
    (("--interval", "x", "--", "true"), "'x' is not a size"),
    (("--limit", "1K", "--", "true"), "--limit must be at least 64K"),
    (("--mode", "pages", "--", "true"), "needs a heap that reports its pages"),
    (("--allocator", "no-such", "--", "true"), "no-such"),
    (("show", "nothing-like-it"), "no profile is named"),
    (("show", "kept.hytrace", "--at", "1h"), "the trace ends after"),
    (("show", "kept.hytrace", "--at", "mark:x"), "there is no mark 'x'"),
    (("show", __file__), "is not a trace"),
])
def test_wrong_requests_get_one_sentence(folder: Path, words: tuple[str, ...], sentence: str):
    run = heapyard(folder, "profile", *words)
    assert run.returncode == 2, (run.stdout, run.stderr)
    assert sentence in run.stderr and "Traceback" not in run.stderr
    assert len(run.stderr.strip().splitlines()) <= 2


@pytest.mark.parametrize("name, reason", [
    ("static_program", "is statically linked: no library can be injected into it"),
    ("idle", "allocated nothing by a malloc that a library can be in front of"),
])
def test_why_a_program_left_no_trace(folder: Path, tmp_path: Path, name: str, reason: str):
    tool = places.native(name)
    if name == "idle":
        (tmp_path / "idle.c").write_text("int main(void) { return 0; }")
        tool = tmp_path / "idle"
        subprocess.run(["cc", "-o", tool, "idle.c"], cwd=tmp_path, check=True)
    run = heapyard(folder, "profile", "--", str(tool))
    assert run.returncode == 4 and f"not traced: '{tool}' {reason}" in run.stderr
    assert len(run.stderr.strip().splitlines()) == 2  # a sentence, a remedy

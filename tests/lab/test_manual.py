# SPDX-License-Identifier: Apache-2.0
"""The manual page and the completions that are installed: up to date, readable, and they complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from heapyard.cli import manual
from heapyard.cli.verbs import VERBS
from heapyard.model import places

ROOT = Path(__file__).resolve().parents[2]
SHARE = ROOT / "packaging" / "share"


def test_what_is_installed_is_what_the_command_line_says() -> None:
    stale = [name for name, text in manual.files().items() if (SHARE / name).read_text() != text]
    assert not stale, "python -m heapyard.cli.manual packaging/share makes them anew"


@pytest.mark.skipif(shutil.which("man") is None, reason="this machine has no man")
def test_man_shows_every_verb() -> None:
    env = {**os.environ, "MANWIDTH": "100", "MANPAGER": "cat", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["man", "--warnings", str(SHARE / manual.MAN_PAGE)], capture_output=True, text=True, env=env)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert [verb for verb in VERBS if f"heapyard {verb}" not in done.stdout] == []
    assert "--interval SIZE" in done.stdout and "EXIT STATUS" in done.stdout


def test_bash_completes_verbs_and_options(tmp_path: Path) -> None:
    command = tmp_path / "heapyard"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -I -m heapyard "$@"\n')
    command.chmod(0o755)
    script = SHARE / "bash-completion/completions/heapyard"
    ask = 'compopt() { :; }; source "$1"; COMP_WORDS=($2); COMP_CWORD=$3; _heapyard_completion heapyard; echo "${COMPREPLY[@]}"'

    def completed(line: str, word: int) -> list[str]:
        done = subprocess.run(["bash", "-c", ask, "bash", script, line, str(word)], capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=True)
        return done.stdout.split()

    assert completed("heapyard com", 1) == ["compare"]
    assert "--never-step" in completed("heapyard profile --ne", 2)


def test_they_lie_where_systems_look(tmp_path: Path) -> None:
    build = places.state() / "build" / "release"
    subprocess.run(["cmake", "--install", build, "--component", "manual", "--prefix", tmp_path], check=True, capture_output=True)
    assert {str(path.relative_to(tmp_path / "share")) for path in tmp_path.rglob("*") if path.is_file()} == set(manual.files())

# SPDX-License-Identifier: Apache-2.0
"""Servers of a study file: every key of a load, one sentence for each wrong one, and what the verdict speaks of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from heapyard.api.assemble import _lead
from heapyard.catalog.program_command import program_from_command
from heapyard.catalog.server_command import Load
from heapyard.catalog.study import Study, read_study
from heapyard.model.errors import UsageError
from heapyard.model.program import Program

FULL = """
[study]
[program.mine]
command = ["/bin/cat", "--port={port}"]
load = ["ab -n {rate} http://127.0.0.1:{port}/", "ab -n 8 http://127.0.0.1:{port}/"]
warm_up = "/bin/echo warm"
ready = "/bin/true"
ready_line = "^listening"
ready_within = "2m"
stop = "INT"
settle = 0.5
state = "state"
port = 8080
metric = ["depth=depth ([0-9]+):higher"]
lead = "latency_p99"
rate = 100
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ab").write_text("#!/bin/sh\n")
    (tmp_path / "ab").chmod(0o755)
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def study(folder: Path, text: str) -> Study:
    (folder / "study.toml").write_text(text)
    return read_study(folder / "study.toml")


def programs(found: Study) -> tuple[Program, ...]:
    return tuple(program_from_command(c.argv, name=name, load=c.load) for name, c in found.commands.items())


def test_every_key_of_a_load_is_read(folder: Path) -> None:
    found = study(folder, FULL)
    assert found.commands["mine"].load == Load(
        ("ab -n {rate} http://127.0.0.1:{port}/", "ab -n 8 http://127.0.0.1:{port}/"), "/bin/true", "^listening", 120.0,
        "/bin/echo warm", "INT", folder / "state", 0.5, 8080, ("depth=depth ([0-9]+):higher",), "latency_p99", 100,
    )  # fmt: skip
    assert _lead(found, programs(found)) == "latency_p99"


@pytest.mark.parametrize(
    ("old", "new", "line", "complaint"),
    [
        ("ready_line =", "redy_line =", 8, "redy_line' is not known here; known are check, command, cwd, env, expect_exit, lead"),
        ('load = ["ab', 'load = [3, "ab', 5, "load' must be a list of strings"),
        ('load = ["ab', 'load = ["wrg', 5, "load' is wrong: there is no program 'wrg'"),
        ('load = ["ab', 'load = ["", "ab', 5, "load' is wrong: is empty; it must be a command"),
        ('load = ["ab', 'load = ["/bin/echo', 5, "load' is wrong: the loads are of several kinds"),
        ('"/bin/echo warm"', "7", 6, "warm_up' must be a string"),
        ('"/bin/true"', "true", 7, "ready' must be a string"),
        ("^listening", "(", 8, "ready_line' is wrong: /(/ is not a regular expression"),
        ('"2m"', '"soon"', 9, "ready_within' is wrong: 'soon' is not a duration"),
        ('"INT"', "15", 10, "stop' must be a string"),
        ("settle = 0.5", "settle = true", 11, "settle' must be a time"),
        ('state = "state"', 'state = "nowhere"', 12, "state' is wrong: there is no folder"),
        ("8080", "80800", 13, "port' must be between 1 and 65535, not 80800"),
        ("depth=depth ([0-9]+)", "depth=depth", 14, "metric' is wrong: /depth/ must have one group"),
        ("depth=", "wall=", 14, "metric' is wrong: heapyard itself has a response of this name, wall"),
        ("depth=", "Deep=", 14, "metric' is wrong: write NAME=REGEX"),
        ("lead =", 'check = "exit"\nlead =', 15, "check' is for a program that ends by itself"),
    ],
)
def test_each_wrong_key_is_told_in_a_sentence(folder: Path, old: str, new: str, line: int, complaint: str) -> None:
    assert old in FULL
    with pytest.raises(UsageError) as caught:
        study(folder, FULL.replace(old, new, 1))
    assert caught.value.message.startswith(f"{folder}/study.toml:{line}: field 'program.mine.{complaint}"), caught.value.message


def test_keys_of_a_load_need_one(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"program.p.ready_line' is for a server, and the program has no load"):
        study(folder, "[study]\n[program.p]\ncommand = ['true']\nready_line = 'x'")
    with pytest.raises(UsageError, match=r"load' is not enough: nothing tells when the server is ready. Write {port} where"):
        study(folder, "[study]\n[program.p]\ncommand = ['true']\nload = 'true'")


def test_the_verdict_speaks_of_one_response(folder: Path) -> None:
    both = "[study]\n[program.p]\ncommand = ['cat', '{port}']\nload = 'ab'\n[program.q]\ncommand = ['true']\n"
    found = study(folder, both)
    with pytest.raises(UsageError, match="speak of time_per_request of p and wall of q, and cannot") as caught:
        _lead(found, programs(found))
    assert 'time = "wall"' in (caught.value.remedy or "")
    found = study(folder, both.partition("[program.q]")[0])
    assert _lead(found, programs(found)) == "time_per_request"

# SPDX-License-Identifier: Apache-2.0
"""`compare --load` from the command to the answer: a server, a load generator, the table, JSON, and nothing left behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SERVE = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    peer, _ = server.accept()
    peer.close()
"""
AB = """#!/bin/sh
cat <<END
Complete requests: 40
Failed requests: 0
Time taken for tests: 0.5 seconds
Time per request: 125.0 [ms] (mean)
 50% 100
 99% 200
END
"""


def compare(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "serve.py").write_text(SERVE)
    (folder / "ab").write_text(AB)
    (folder / "ab").chmod(0o755)
    env = {**os.environ, "HEAPYARD_RESULTS": str(folder / "results"), "HEAPYARD_LOCK": str(folder / "lock"), "COLUMNS": "80",
           "PATH": f"{folder}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "heapyard", "compare", "bfm", "--blocks", "2", "--settle", "50ms", *words]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def server(folder: Path) -> tuple[str, ...]:
    return ("--", "/usr/bin/python3", str(folder / "serve.py"), "{port}")


def test_the_answer_has_what_the_load_saw(tmp_path: Path) -> None:
    done = compare(tmp_path, "--load", "ab http://127.0.0.1:{port}/", *server(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Under load" in done.stdout and "requests/s" in done.stdout and "ab waits for an answer" in done.stdout
    [page] = (tmp_path / "results").glob("*/report.html")
    assert "Under load" in page.read_text()
    processes = subprocess.run(["pgrep", "-f", str(tmp_path / "serve.py")], capture_output=True, text=True).stdout
    assert processes == ""


def test_json_has_the_responses(tmp_path: Path) -> None:
    done = compare(tmp_path, "--json", "--load", "ab http://127.0.0.1:{port}/", "--lead", "latency_p99", *server(tmp_path))
    assert done.returncode == 0, done.stderr
    metrics = json.dumps(json.loads(done.stdout))
    assert all(f'"{name}"' in metrics for name in ("latency_p99", "latency_p50", "request_rate"))


def test_options_of_a_load_need_one(tmp_path: Path) -> None:
    done = compare(tmp_path, "--ready", "true", *server(tmp_path))
    assert done.returncode == 2 and "--ready is for a server, whose load --load gives" in done.stderr
    done = compare(tmp_path, "--load", "ab {port}")
    assert done.returncode == 2 and "--load is for your own server" in done.stderr
    done = compare(tmp_path, "--count-syscalls", "--load", "ab {port}", *server(tmp_path))
    assert done.returncode == 2 and "not a server under --load" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--load", "ab http://127.0.0.1:{prot}/"), "did you mean {port}?"),
        (("--load", "echo GET | no_vegeta attack", "--ready", "true"), "there is no program 'no_vegeta'"),
        (("--load", "ab x:{port}", "--lead", "latency_99th%"), "tells no latency_99th% above zero"),
        (("--load", "ab x:{port}", "--metric", "depth=queue ([0-9]+)"), "nothing that matches /queue ([0-9]+)/"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence_and_leaves_nothing(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """What can be seen beforehand leaves no experiment either."""
    done = compare(tmp_path, *words, *server(tmp_path))
    early = "did you" in said or "no program" in said
    assert done.returncode == (2 if early else 4) and said in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / "results").exists() is not early
    processes = subprocess.run(["pgrep", "-f", str(tmp_path / "serve.py")], capture_output=True, text=True).stdout
    assert processes == ""


def test_a_port_in_use_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = compare(tmp_path, "--load", "ab x", "--port", str(taken.getsockname()[1]), *server(tmp_path))
    assert done.returncode == 2 and "cannot be had: Address already in use" in done.stderr
    assert not (tmp_path / "results").exists()

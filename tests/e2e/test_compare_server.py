# SPDX-License-Identifier: Apache-2.0
"""`compare --load` from the command to the answer: a server, a load generator, the table, JSON, and nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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

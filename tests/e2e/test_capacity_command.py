# SPDX-License-Identifier: Apache-2.0
"""`heapyard capacity` on a server that serves one request after another, each in a known time: no rate above the law is found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SERVICE = 0.01  # seconds for each request, at least: M/D/1 where arrivals are at random
LIMIT = 0.2  # seconds
LOAD = 0.5  # seconds
# What arrives within the load must be served within the load and the limit, but for one request in a hundred.
MOST = (LOAD + LIMIT) / SERVICE / LOAD / 0.99

SERVE = """
import queue, socket, sys, threading, time
waiting = queue.Queue()
def work():
    while True:
        peer = waiting.get()
        time.sleep(float(sys.argv[2]))
        try:
            peer.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok")
            peer.close()
        except OSError:
            pass
threading.Thread(target=work, daemon=True).start()
server = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=4096)
while True:
    peer, _ = server.accept()
    waiting.put(peer)
"""
# Asks at instants that are fixed beforehand, whatever the server does: latencies count from those instants.
ASK = """
import random, selectors, socket, sys, time
port, rate, seconds, at_most = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
draw, due, at = random.Random(rate), [], 0.0
while (at := at + draw.expovariate(rate)) < seconds: due.append(at)
chosen, latencies, begin, sent = selectors.DefaultSelector(), [], time.monotonic(), 0
while len(latencies) < len(due) and time.monotonic() - begin < seconds + at_most:
    while sent < len(due) and time.monotonic() - begin >= due[sent]:
        peer = socket.create_connection(("127.0.0.1", port))
        peer.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
        chosen.register(peer, selectors.EVENT_READ, due[sent])
        sent += 1
    left = due[sent] - (time.monotonic() - begin) if sent < len(due) else 0.05
    for key, _ in chosen.select(max(left, 0)):
        key.fileobj.recv(100)
        latencies.append(time.monotonic() - begin - key.data)
        chosen.unregister(key.fileobj)
        key.fileobj.close()
latencies += [seconds + at_most] * (len(due) - len(latencies))
latencies.sort()
print("p99", latencies[int(0.99 * len(latencies))] if latencies else 0.0, "rate", sent / seconds)
"""


def capacity(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "serve.py").write_text(SERVE)
    (folder / "ask.py").write_text(ASK)
    env = {**os.environ, "HEAPYARD_RESULTS": str(folder / "results"), "HEAPYARD_LOCK": str(folder / "lock"), "COLUMNS": "80"}
    command = [sys.executable, "-m", "heapyard", "capacity", "bfm", "--settle", "10ms", "--quiet", *words]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=200, check=False)


def server(folder: Path) -> tuple[str, ...]:
    return ("--", "/usr/bin/python3", str(folder / "serve.py"), "{port}", str(SERVICE))


def holds_the_law(told: dict[str, Any]) -> None:
    rows = [*told["capacities"], told["control"]["row"]]
    assert len(rows) == 3 and all(row["kept_up_to"] is None or row["kept_up_to"] <= MOST for row in rows), rows
    assert rows[0]["rate"] is not None and rows[0]["rate"]["low"] < MOST, rows
    assert all(row["near"].get("charged", 1) > 0 for row in rows)


def test_no_rate_is_found_that_the_server_cannot_serve(tmp_path: Path) -> None:
    load = f"/usr/bin/python3 {tmp_path}/ask.py {{port}} {{rate}} {LOAD} {LIMIT}"
    done = capacity(tmp_path, "--json", "--slo", f"p99_seconds={LIMIT}", "--start", "25", "--budget", "14s", "--load", load,
                    "--metric", "p99_seconds=p99 ([0-9.]+)", "--metric", "request_rate=rate ([0-9.]+):higher", *server(tmp_path))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    holds_the_law(told)
    assert told["kind"] == "capacity" and told["id"] and told["status"] == "finished"
    assert "does not know this generator" in " ".join(told["notes"])
    env = {**os.environ, "HEAPYARD_RESULTS": str(tmp_path / "results")}

    def later(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "heapyard", *words], env=env, capture_output=True, text=True, timeout=60)

    assert json.loads(later("show", "--json").stdout) == told
    refused = later("diff", "last", "last")
    assert refused.returncode == 2 and "this experiment searched for capacities" in refused.stderr, refused
    assert list((tmp_path / "results").glob("*/report.html"))
    assert subprocess.run(["pgrep", "-f", str(tmp_path / "serve.py")], capture_output=True, text=True).stdout == ""


@pytest.mark.on_request
def test_no_rate_is_found_under_vegeta_either(tmp_path: Path) -> None:
    if shutil.which("vegeta") is None:
        pytest.skip("vegeta is not there: go install github.com/tsenart/vegeta/v12@latest")
    load = f"echo GET http://127.0.0.1:{{port}}/ | vegeta attack -rate={{rate}} -duration={LOAD}s -timeout=2s | vegeta report"
    done = capacity(tmp_path, "--json", "--slo", f"p99={LIMIT}s", "--start", "25", "--budget", "60s", "--load", load,
                    *server(tmp_path))
    assert done.returncode == 0, done.stderr
    holds_the_law(json.loads(done.stdout))


def test_what_is_missing_is_told_in_a_sentence(tmp_path: Path) -> None:
    for words, why in (
        (("--slo", "p99=5ms", "--load", "echo {port}", *server(tmp_path)), "needs a load with {rate} in it"),
        (("--slo", "p99", "--load", "echo {rate} {port}", *server(tmp_path)), "write a limit such as p99=5ms"),
        (("--slo", "p99=5ms", "--load", "echo {rate} {port}"), "the server's command goes after --"),
        (("--slo", "p99=5ms", *server(tmp_path)), "--load is missing"),
    ):
        done = capacity(tmp_path, *words)
        assert done.returncode == 2 and why in done.stderr, done

# SPDX-License-Identifier: Apache-2.0
"""`soak --load` from the command to the answer: killed in the middle, interrupted, a server that dies, a leak that is known."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

# Answers words; `die` ends it. With a size it keeps as many bytes of each request.
SERVE = """
import os, socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
kept = []
while True:
    peer, _ = server.accept()
    word = peer.recv(100)
    if word == b"die": os._exit(3)
    kept.append(b"." * int(sys.argv[2]))
    peer.sendall(b"!")
    peer.close()
"""
# Twenty requests in a fifth of a second; prints what ab prints, as far as it is read. A second word is asked once, ever.
ASK = """
import os, socket, sys, time
begin = time.monotonic()
words = ["x"] * 20
asked = sys.argv[0] + ".asked"
if len(sys.argv) > 2 and not os.path.exists(asked):
    open(asked, "w").close()
    words.insert(0, sys.argv[2])
for word in words:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as peer:
        peer.sendall(word.encode())
        peer.recv(10)
    time.sleep(0.01)
took = time.monotonic() - begin
print("Complete requests: 20", "Failed requests: 0", f"Time taken for tests: {took} seconds", sep="\\n")
print("Time per request: 5 [ms] (mean)", " 99% 9", sep="\\n")
"""


def command(folder: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    (folder / "serve.py").write_text(SERVE)
    (folder / "ab").write_text(f"#!{sys.executable} -IS\n{ASK}")
    (folder / "ab").chmod(0o755)
    env = {**os.environ, "HEAPYARD_RESULTS": str(folder / "results"), "HEAPYARD_LOCK": str(folder / "lock"), "COLUMNS": "80"}
    return [sys.executable, "-I", "-m", "heapyard", "soak", "--no-html", *words], env


def soak(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line, env = command(folder, *words)
    return subprocess.run(line, env=env, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def begin(folder: Path, *words: str) -> subprocess.Popen[str]:
    line, env = command(folder, *words)
    return subprocess.Popen(line, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def server(folder: Path, size: int = 4000) -> tuple[str, ...]:
    return ("--", sys.executable, "-IS", str(folder / "serve.py"), "{port}", str(size))


def notes(folder: Path) -> list[dict[str, Any]]:
    found = list((folder / "results").glob("soak/servers/*/notes.jsonl"))
    return [json.loads(line) for line in found[0].read_text().splitlines()] if found else []


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def running(folder: Path) -> str:
    """Processes whose command line names the folder."""
    done = subprocess.run(["pgrep", "--list-full", "--full", str(folder / "serve.py")], capture_output=True, text=True, check=False)
    return done.stdout


def kinds(lines: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["k"] == kind]


def test_a_killed_soak_loses_nothing_and_goes_on_with_the_same_servers(tmp_path: Path) -> None:
    words = ("bfm", "glibc", "--in-turns", "--slice", "500ms", "--for", "5s", "--json", "--load", f"{tmp_path}/ab {{port}}")
    first = begin(tmp_path, *words, *server(tmp_path))
    until(lambda: {line["a"] for line in kinds(notes(tmp_path), "pass")} == {"bfm", "glibc"})
    first.kill()
    first.communicate()
    before = notes(tmp_path)
    assert running(tmp_path).count("serve.py") == 2
    done = soak(tmp_path, *words, *server(tmp_path))
    assert done.returncode == 0, done.stderr
    assert notes(tmp_path)[: len(before)] == before and done.stderr.count("the server still runs") == 2
    answer = json.loads(done.stdout)
    assert answer["complete"] and answer["mode"] == "in turns" and running(tmp_path) == ""
    for found in answer["servers"]:
        launches = found["launches"]
        assert [launch["fresh"] for launch in launches] == [True, False] and launches[0]["pid"] == launches[1]["pid"]
        assert found["seconds"] >= 2 and found["passes"] >= 2 and found["samples"] >= 4
        assert any(hour["rate"] for hour in found["hours"]) and answer["latency"] == "latency_p99"
    again = soak(tmp_path, *words, *server(tmp_path))
    assert again.returncode == 0 and "this run is complete" in again.stderr and json.loads(again.stdout) == answer


def test_ctrl_c_ends_in_order_and_a_server_that_died_is_told(tmp_path: Path) -> None:
    words = ("--for", "60s", "--load", f"{tmp_path}/ab {{port}} die")
    first = begin(tmp_path, *words, *server(tmp_path))
    until(lambda: len(kinds(notes(tmp_path), "pass")) >= 2)
    first.send_signal(signal.SIGINT)
    out, errors = first.communicate(timeout=60)
    assert first.returncode == 130, errors
    assert running(tmp_path) == ""
    told = " ".join(out.split())
    assert "the server ended with exit code 3; it is started anew" in told
    assert "It is not complete; the same command goes on." in told and all(len(line) <= 80 for line in out.splitlines())
    assert len(kinds(notes(tmp_path), "begin")) == 2


@pytest.mark.parametrize(("words", "sentence"), [
    (("--load", "true {port}", "--", "/bin/sh", "-c", "echo no luck; exit 4 # {port}"),
     "the server ended before it was ready, with exit code 4; it said: no luck"),
    (("--load", "true {port}", *server(Path("{folder}"))), "it must last 0.1 s at least"),
])  # fmt: skip
def test_what_cannot_be_is_said_in_one_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    done = soak(tmp_path, *(word.replace("{folder}", str(tmp_path)) for word in words))
    assert done.returncode == 4 and sentence in done.stderr and running(tmp_path) == ""
    assert "Traceback" not in done.stderr


# ------------------------------------------------------------------------------------------------------ what takes minutes

# Owes a leak of so many bytes a second by its own clock; with `holes`, half of it is given back between what stays, and
# too small for what follows. Answers whoever connects.
LEAKS = r"""
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
static void* touched(size_t n) { char* p = malloc(n); if (p) memset(p, 1, n); return p; }
int main(int count, char** words) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const int on = 1, server = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(server, (struct sockaddr*)&at, sizeof at) || listen(server, 64)) return 1;
  const double rate = atof(words[2]);
  const int holes = count > 3;
  size_t size = 1000;
  double owed = 0, last = now();
  for (;;) {
    struct pollfd one = {.fd = server, .events = POLLIN};
    if (poll(&one, 1, 10) > 0) {
      char word[100];
      const int peer = accept(server, 0, 0);
      if (read(peer, word, 100) > 0) write(peer, "!", 1);
      close(peer);
    }
    const double time = now();
    if (time - last < 1) owed += rate * (time - last); /* what a standstill lasted is not owed */
    last = time;
    while (owed >= size) {
      void* hole = holes ? touched(size) : NULL;
      if (!touched(size)) return 2;
      free(hole);
      owed -= size;
      if (holes) size += 16; else size = 1000;
    }
  }
}
"""
RATE = 40_000  # bytes a second


@pytest.fixture
def leaks(tmp_path: Path) -> Path:
    (tmp_path / "leaks.c").write_text(LEAKS)
    subprocess.run(["cc", "-O1", "-w", "-o", tmp_path / "leaks", tmp_path / "leaks.c"], check=True)
    return tmp_path / "leaks"


@pytest.mark.on_request
def test_a_known_leak_is_found_though_the_soak_is_killed(tmp_path: Path, leaks: Path) -> None:
    """HEAPYARD_SOAK_FOR=4h is the long form. In turns, as on a small machine."""
    words = ("glibc", "jemalloc", "--in-turns", "--slice", "10s", "--for", os.environ.get("HEAPYARD_SOAK_FOR", "4m"), "--json",
             "--load", f"{tmp_path}/ab {{port}}", "--", str(leaks), "{port}", str(RATE))
    first = begin(tmp_path, *words)
    until(lambda: len(kinds(notes(tmp_path), "pass")) >= 150)
    first.kill()
    first.communicate()
    done = soak_long(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    for found in json.loads(done.stdout)["servers"]:
        slope, true = found["resident_per_hour"], 3600 * RATE * overhead(found["allocator"])
        print(row(f"leak under {found['allocator']}", true, slope))
        assert slope["value"] == pytest.approx(true, rel=0.1)


@pytest.mark.on_request
@pytest.mark.parametrize("kind", ["leak", "holes"])
def test_a_profile_tells_a_leak_from_holes(tmp_path: Path, leaks: Path, kind: str) -> None:
    """Half of what becomes resident is live where every other block is given back."""
    done = soak_long(tmp_path, "--profile", "--for", "150s", "--json", "--load", f"{tmp_path}/ab {{port}}",
                     "--", str(leaks), "{port}", str(4 * RATE), *(["holes"] if kind == "holes" else []))
    assert done.returncode == 0, done.stderr
    [found] = json.loads(done.stdout)["servers"]
    true = 4 * 3600 * RATE
    for name, much in (("live", true), ("held", true if kind == "holes" else 0)):
        slope = found[f"{name}_per_hour"]
        print(row(f"{kind}, {name}", much, slope))
        assert slope["half"] < 0.25 * true and abs(slope["value"] - much) < 1.5 * slope["half"]


def row(what: str, true: float, slope: dict[str, Any]) -> str:
    """Of the table in docs/measured/hours.md; MB, as the leak is built in."""
    return f"| {what} | {true / 1e6:.1f} | {slope['value'] / 1e6:.1f} ± {slope['half'] / 1e6:.1f} |"


def soak_long(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line, env = command(folder, *words)
    return subprocess.run(line, env=env, cwd=folder, capture_output=True, text=True, check=False)


def overhead(allocator: str) -> float:
    """What a block of 1,000 bytes takes: glibc's has 8 more; jemalloc's has 1,024, and each page of four a record of 144 bytes."""
    return {"glibc": 1.008, "jemalloc": 1.024 * (1 + 144 / 4096)}[allocator]

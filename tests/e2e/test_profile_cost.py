# SPDX-License-Identifier: Apache-2.0
"""What tracing costs, beside heaptrack, memray, jemalloc's profiler and massif: interleaved rounds, ratios (on request).

HEAPYARD_MEMRAY_PYTHON: an interpreter with memray. HEAPYARD_ROUNDS: 8 unless said otherwise. HEAPYARD_ONLY: a program and
the ways it is run, as "g++:off,exact,heaptrack", each in all rounds. HEAPYARD_MINUTES: of the long run, 1 unless said otherwise.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from profiled import program
from scipy import stats

from heapyard.catalog.allocators import installed_allocators
from heapyard.catalog.own_heaps import sampled_variant, samples_itself
from heapyard.execute.collector import Collector, Plan
from heapyard.profile.trace import load_trace

pytestmark = pytest.mark.on_request
ROUNDS = int(os.environ.get("HEAPYARD_ROUNDS", "8"))
SLOW_ROUNDS = 3  # of heaptrack; massif runs once
ONLY_PROGRAM, _, ONLY_WAYS = os.environ.get("HEAPYARD_ONLY", "").partition(":")
SOURCE = """
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <unordered_map>
int main() {
  std::regex r("a(b|c)*d");
  std::map<std::string, std::vector<int>> m;
  std::unordered_map<std::string, std::function<int(int)>> f;
  f["x"] = [](int a) { return a; };
  m["x"].push_back(std::regex_match("abcd", r));
  std::cout << m.size() + f["x"](1);
}
"""
SCRIPT = "import json; d=[{'a':i,'b':str(i)*3,'c':[i]*5} for i in range(200000)]; print(len(json.loads(json.dumps(d))))"


# Servers stop when their client has ended.
CLIENT = """
until redis-cli -p {port} ping >/dev/null 2>&1; do sleep 0.02; done
redis-benchmark -p {port} -q -n 150000 -c 20 -P 4 -r 200000 -d 400 -t set,get,lpush,lpop,sadd,hset >/dev/null
redis-cli -p {port} shutdown nosave
"""


@dataclass(frozen=True)
class Subject:
    name: str
    command: list[str]
    client: str = ""  # a shell script


@dataclass(frozen=True)
class Way:
    name: str
    base: str | None  # the way it is compared with
    rounds: int
    run: Callable[[Subject, Path], tuple[float, int]]  # seconds, bytes of trace


def plainly(allocator: str | None = None, extra: dict[str, str] | None = None) -> Callable[[Subject, Path], tuple[float, int]]:
    libraries = {a.name: str(a.library) for a in installed_allocators()}

    def run(subject: Subject, folder: Path) -> tuple[float, int]:
        env = {**os.environ, **(extra or {}), **({"LD_PRELOAD": libraries[allocator]} if allocator else {})}
        return timed(subject, subject.command, env, folder), 0

    return run


def plan_of(subject: Subject, mode: str, allocator: str | None, **plan: Any) -> Plan:
    """As `heapyard profile --allocator` makes it: a heap of ours is sampled from within."""
    library = {a.name: a.library for a in installed_allocators()}[allocator] if allocator else None
    library = (sampled_variant(library) if mode == "sampled" else None) or library
    return Plan(subject.command, mode=mode, library=library, told_by_heap=samples_itself(library), **plan)


def traced_as(mode: str, allocator: str | None = None) -> Callable[[Subject, Path], tuple[float, int]]:
    def run(subject: Subject, folder: Path) -> tuple[float, int]:
        collector = Collector(folder, plan_of(subject, mode, allocator))
        took = timed(subject, subject.command, {**os.environ, **collector.environment}, folder)
        collector.close()
        return took, sum(path.stat().st_size for path in folder.glob("*.hytrace"))

    return run


def wrapped(words: Callable[[Path], list[str]]) -> Callable[[Subject, Path], tuple[float, int]]:
    def run(subject: Subject, folder: Path) -> tuple[float, int]:
        took = timed(subject, [*words(folder), *subject.command], dict(os.environ), folder)
        return took, sum(path.stat().st_size for path in folder.iterdir() if path.is_file())

    return run


def timed(subject: Subject, command: list[str], env: dict[str, str], folder: Path) -> float:
    began = time.perf_counter()
    client = subprocess.Popen(["sh", "-c", subject.client]) if subject.client else None
    subprocess.run(command, env=env, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if client:
        assert client.wait() == 0
    return time.perf_counter() - began


def memray(subject: Subject, folder: Path) -> tuple[float, int]:
    """The script of python3 -c, in a file."""
    (folder / "script.py").write_text(subject.command[-1])
    command = [subject.command[0], "-m", "memray", "run", "--native", "-o", str(folder / "m.bin"), str(folder / "script.py")]
    return timed(subject, command, dict(os.environ), folder), (folder / "m.bin").stat().st_size


def subjects(folder: Path) -> list[Subject]:
    source, ready = folder / "source.cpp", folder / "source.ii"
    source.write_text(SOURCE)
    subprocess.run(["g++", "-E", source, "-o", ready], check=True)
    compiler = subprocess.run(["g++", "-print-prog-name=cc1plus"], check=True, capture_output=True, text=True).stdout.strip()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = folder / "redis-server"
    server.symlink_to("/usr/bin/redis-check-rdb")  # which looks at its name
    quiet = ["--port", str(port), "--save", "", "--appendonly", "no", "--jemalloc-bg-thread", "no", "--dir", str(folder)]
    return [
        Subject("netbuild", [str(program("netbuild")), "--shapes", "600000"]),
        Subject("larson, 2 threads", [str(program("larson")), "-n", "2", "-g", "20"]),
        # The compiler itself, for heaptrack does not follow the driver's exec.
        Subject("g++ -O1", [compiler, "-quiet", "-O1", str(ready), "-o", "/dev/null"]),
        Subject("python3, json", [os.environ.get("HEAPYARD_MEMRAY_PYTHON", "/usr/bin/python3"), "-c", SCRIPT]),
        Subject("redis", [str(server), *quiet], CLIENT.format(port=port)),
        Subject("jq", ["jq", "-n", "[range(1000000)|tostring]|length"]),
    ]


def ways() -> list[Way]:
    found = [
        Way("off", None, ROUNDS, plainly()),
        Way("sampled", "off", ROUNDS, traced_as("sampled")),
        Way("exact", "off", ROUNDS, traced_as("exact")),
        Way("bfm", None, ROUNDS, plainly("bfm")),
        Way("pages", "bfm", ROUNDS, traced_as("pages", "bfm")),
        Way("within bfm", "bfm", ROUNDS, traced_as("sampled", "bfm")),
        Way("scalloc", None, ROUNDS, plainly("scalloc")),
        Way("within scalloc", "scalloc", ROUNDS, traced_as("sampled", "scalloc")),
        Way("jemalloc", None, ROUNDS, plainly("jemalloc")),
        Way("jemalloc prof", "jemalloc", ROUNDS,
            plainly("jemalloc", {"MALLOC_CONF": "prof:true,prof_active:true,prof_final:true"})),
    ]
    if shutil.which("heaptrack"):
        found.append(Way("heaptrack", "off", SLOW_ROUNDS, wrapped(lambda f: ["heaptrack", "--raw", "-o", str(f / "h")])))
    if shutil.which("valgrind"):
        found.append(Way("massif", "off", 1, wrapped(
            lambda f: ["valgrind", "--tool=massif", f"--massif-out-file={f}/m", "--trace-children=yes"])))
    return found


def log_ratios(taken: list[float], bases: list[float]) -> str:
    """The geometric mean of ratios with its 95 % t-interval."""
    logs = np.log(np.array(taken) / np.array(bases))
    if len(logs) == 1:
        return f"{np.exp(logs[0]):8.3f}  (once)"
    half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / len(logs) ** 0.5
    return f"{np.exp(logs.mean()):8.3f}  ({np.exp(logs.mean() - half):.3f} to {np.exp(logs.mean() + half):.3f})"


Seconds = dict[str, list[float]]


def in_blocks(subject: Subject, found: list[Way], tmp_path: Path) -> tuple[Seconds, Seconds, dict[str, int]]:
    """Seconds of each way, those of what it is compared with in the same block, and bytes of its trace."""
    pick = random.Random(time.time_ns())
    taken: dict[str, list[float]] = {}
    bases: dict[str, list[float]] = {}
    size: dict[str, int] = {}
    for turn in range(ROUNDS):
        block = [way for way in found if turn < way.rounds]
        pick.shuffle(block)
        now: dict[str, float] = {}
        for way in block:
            folder = Path(tempfile.mkdtemp(dir=tmp_path))
            now[way.name], size[way.name] = way.run(subject, folder)
            shutil.rmtree(folder)
        for way in block:
            taken.setdefault(way.name, []).append(now[way.name])
            if way.base:
                bases.setdefault(way.name, []).append(now[way.base])
    return taken, bases, size


def test_overhead(tmp_path: Path) -> None:
    print()
    for subject in (subject for subject in subjects(tmp_path) if subject.name.startswith(ONLY_PROGRAM)):
        found = ways()
        if ONLY_WAYS:
            found = [replace(way, rounds=ROUNDS) for way in found if way.name in ONLY_WAYS.split(",")]
        if "HEAPYARD_MEMRAY_PYTHON" in os.environ and subject.name.startswith("python3"):
            found.append(Way("memray --native", "off", ROUNDS, memray))
        taken, bases, size = in_blocks(subject, found, tmp_path)
        print(f"{subject.name}: {np.median(taken['off']):.2f} s")
        for way in found:
            if way.base is not None:
                text = log_ratios(taken[way.name], bases[way.name])
                print(f"  {way.name:14} {text:34} {size[way.name]:>12,} bytes of trace", flush=True)


# Steps of spinning between two pairs, and pairs of about two seconds.
RATES = [(9000, 200_000), (1800, 1_000_000), (880, 2_000_000), (420, 4_000_000), (150, 10_000_000), (60, 20_000_000),
         (15, 40_000_000)]


def test_overhead_over_the_rate_of_allocation(tmp_path: Path) -> None:
    """Time, by millions of pairs of malloc and free a second: of the tracer's modes, and of heaptrack."""
    print()
    found = [way for way in ways() if way.name in ("off", "sampled", "exact", "heaptrack", "scalloc", "within scalloc")]
    for steps, count in RATES:
        subject = Subject("rate", [str(program("rate")), str(count), str(steps)])
        taken, bases, size = in_blocks(subject, found, tmp_path)
        rate = count / float(np.median(taken["off"])) / 1e6
        for way in (way for way in found if way.base):
            text = log_ratios(taken[way.name], bases[way.name])
            each = size[way.name] / count / 2
            print(f"{rate:6.2f} million/s  {way.name:14} {text:34} {each:8.3f} bytes of trace per event", flush=True)


def instructions(subject: Subject, env: dict[str, str], folder: Path) -> int:
    """Of the program and the libraries in it, the collector's not; the same on every run but for the clock."""
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind", *subject.command],
                          env={**os.environ, **env}, check=True, capture_output=True, text=True, cwd=folder)
    counted = re.search(r"Collected : (\d+)", done.stderr)
    assert counted is not None, done.stderr
    return int(counted[1])


def test_overhead_in_instructions(tmp_path: Path) -> None:
    """Ratios that do not scatter: each way to the same program, untraced under the same heap; no event is dropped."""
    libraries = {a.name: str(a.library) for a in installed_allocators()}
    chosen = [Subject("netbuild", [str(program("netbuild")), "--shapes", "100000"]),
              Subject("jq", ["jq", "-n", "[range(100000)|tostring]|length"]),
              Subject("python3, json", ["/usr/bin/python3", "-c", SCRIPT.replace("200000", "20000")])]
    found: list[tuple[str, str | None]] = [("sampled", None), ("exact", None), ("pages", "bfm")]
    found += [("sampled", heap) for heap in ("bfm", "scalloc", "elfmalloc")]
    print()
    for subject in chosen:
        for mode, heap in found:
            base = instructions(subject, {"LD_PRELOAD": libraries[heap]} if heap else {}, tmp_path)
            collector = Collector(tmp_path / "traces", plan_of(subject, mode, heap, never_step=True))
            count = instructions(subject, collector.environment, tmp_path)
            collector.stop()
            print(f"{subject.name:14} {mode:8} {'within ' + heap if heap else '':16} {count / base:.3f}", flush=True)
            assert count > 0.8 * base


def peaks(subject: Subject, env: dict[str, str], folder: Path) -> tuple[float, float]:
    """The most MiB that were resident: of its own pages, with those it shares with the collector; and with files'."""
    client = subprocess.Popen(["sh", "-c", subject.client]) if subject.client else None
    own = all_ = 0
    with subprocess.Popen(subject.command, env={**os.environ, **env}, cwd=folder, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            kind = {name: int(size) for name, size in re.findall(r"Rss(\w+):\s+(\d+) kB", status)}
            if kind:
                own, all_ = max(own, kind["Anon"] + kind["Shmem"]), max(all_, sum(kind.values()))
            time.sleep(0.001)
    assert process.returncode == 0 and (client is None or client.wait() == 0)
    return own / 1024, all_ / 1024


def test_memory(tmp_path: Path) -> None:
    """What the tracer adds to a program's own pages, to them and those of files, and what its collector takes."""
    libraries = {a.name: str(a.library) for a in installed_allocators()}
    sizes = [Subject(f"jq, {count:,}", ["jq", "-n", f"[range({count})|tostring]|length"]) for count in (10_000, 100_000, 300_000)]
    print()
    for subject in subjects(tmp_path) + sizes:
        if not subject.name.startswith(ONLY_PROGRAM):
            continue
        for mode, heap in (("sampled", None), ("pages", "bfm"), ("exact", None)):
            plain, traced, collectors = [], [], []
            for n in range(ROUNDS):
                plain.append(peaks(subject, {"LD_PRELOAD": libraries[heap]} if heap else {}, tmp_path))
                collector = Collector(tmp_path / f"{subject.name[0]}{mode}{n}", plan_of(subject, mode, heap))
                traced.append(peaks(subject, collector.environment, tmp_path))
                collectors.append(collector.memory() / 2**20)
                collector.close()
            own, all_ = np.median(plain, axis=0)
            more_own, more = np.median(np.subtract(traced, plain), axis=0)
            ratios = [log_ratios([t[k] for t in traced], [p[k] for p in plain]) for k in (0, 1)]
            print(f"{subject.name:18} {mode:8} own {own:6.1f} MiB {more_own:+6.2f} {ratios[0]:24} resident {all_:6.1f} MiB "
                  f"{more:+6.2f} {ratios[1]:24} collector {np.median(collectors):5.2f} MiB", flush=True)
            grown = np.subtract(traced, plain)[:, 0]  # sizes scatter: what it surely takes
            surely = grown.mean() - stats.t.ppf(0.975, ROUNDS - 1) * grown.std(ddof=1) / ROUNDS**0.5
            assert mode == "exact" or surely < max(0.02 * own, 0.8), f"{subject.name}, {mode}: {grown}"


def test_a_long_run_stays_within_its_bounds(tmp_path: Path) -> None:
    """Redis under load for HEAPYARD_MINUTES, full after one: the trace and the collector stay as small as told."""
    minutes, limit = float(os.environ.get("HEAPYARD_MINUTES", "1")), 256 << 10
    [redis] = [subject for subject in subjects(tmp_path) if subject.name == "redis"]
    port = redis.command[redis.command.index("--port") + 1]
    command = [*redis.command, "--maxmemory", "6gb", "--maxmemory-policy", "allkeys-lru"]
    collector = Collector(tmp_path / "traces", Plan(command, limit=limit))
    with subprocess.Popen(command, env={**os.environ, **collector.environment}, stdout=subprocess.DEVNULL) as server:
        ends, resident = time.monotonic() + minutes * 60, 0
        time.sleep(1)
        while time.monotonic() < ends:
            subprocess.run(["redis-benchmark", "-p", port, "-q", "-n", "400000", "-c", "20", "-P", "16", "-r", "20000000", "-d",
                            "700", "-t", "set,lpush,hset,sadd,get"], check=True, stdout=subprocess.DEVNULL)
            status = Path(f"/proc/{server.pid}/status").read_text()
            resident = max(resident, int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10)  # type: ignore[index]
        told = subprocess.run(["redis-cli", "-p", port, "info", "memory"], check=True, capture_output=True, text=True).stdout
        memory = collector.memory()
        server.kill()
    collector.close()
    [path] = (tmp_path / "traces").glob("*.hytrace")
    found = load_trace(path)
    used = int(re.search(r"used_memory:(\d+)", told)[1])  # type: ignore[index]
    end = found.snapshot("end")
    assert end is not None
    count = sum(thread.allocations for thread in found.threads)
    print(f"\n{found.duration:.0f} s, {count:,} allocations, {resident / 2**30:.2f} GiB resident, "
          f"a trace of {path.stat().st_size:,} bytes, {memory / 2**20:.1f} MiB in the collector; at the end "
          f"{used / 2**30:.2f} GiB by redis's own count, {end.total / 2**30:.2f} GiB by ours")
    assert path.stat().st_size <= limit
    late = (found.time > 0.75 * found.duration) & (found.time < 0.95 * found.duration)
    assert late.any()  # the file has room for the last part of a run too
    assert memory < max(8 << 20, 0.02 * resident)
    assert 0.75 * used < end.total < 1.05 * used

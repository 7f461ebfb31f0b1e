# SPDX-License-Identifier: Apache-2.0
"""What all resident memory is: mappings of the program's own to the page, and parts that add up to what the kernel says."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from profiled import doubt, only, program, traced

from heapyard.catalog.allocators import find_allocators, installed_allocators
from heapyard.catalog.own_heaps import sampled_variant, samples_itself
from heapyard.model.shared import Resident
from heapyard.profile.account import Account, beside, fullest, nearest
from heapyard.profile.chains import Naming
from heapyard.profile.library import main_trace
from heapyard.profile.symbols import frames_of
from heapyard.profile.trace import Trace, load_trace

ALLOCATORS = [None, *(a for a in installed_allocators() if a.name in ("jemalloc", "mimalloc", "bfm", "scalloc", "heapyard"))]
KIB, MIB = 1 << 10, 1 << 20


def truth_of(path: Path) -> dict[str, dict[str, int]]:
    told: dict[str, dict[str, int]] = defaultdict(dict)
    for line in path.read_text().splitlines():
        phase, who, size = line.split()
        told[phase][who] = int(size)
    return told


def by_function(trace: Trace, account: Account) -> dict[str, int]:
    naming, found = Naming(trace, frames_of(trace)), defaultdict(int)
    for node, size in zip(account.nodes.tolist(), account.mapped_resident.tolist(), strict=True):
        for frame in naming.chain(node):
            found[frame.function.partition("(")[0]] += size
    return found


def parts_of(account: Account) -> dict[str, int]:
    assert sum(part.bytes for part in account.parts) == account.resident
    assert all(part.bytes >= 0 for part in account.parts)
    return {part.key: part.bytes for part in account.parts}


def seen_at_marks(tmp_path: Path, **plan: object) -> tuple[Trace, dict[str, Account], dict[str, dict[str, int]]]:
    """The program's trace, by phase what was seen while it lasted, and the truth. A busy machine may look too late: then again."""
    for turn in range(3):
        trace = only(traced(tmp_path / str(turn), program("mapped"), tmp_path / "truth", **plan))
        marks = {s.name: s.time for s in trace.snapshots if s.kind == "mark"}
        assert list(marks) == ["full", "less"]
        seen = {name: [a for a in trace.accounts if time <= a.time < time + 0.25] for name, time in marks.items()}
        if all(seen.values()):
            return trace, {name: accounts[0] for name, accounts in seen.items()}, truth_of(tmp_path / "truth")
    pytest.fail("nobody looked")


@pytest.mark.parametrize("mode", ["sampled", "exact"])
@pytest.mark.parametrize("allocator", ALLOCATORS, ids=lambda a: a.name if a else "glibc")
def test_mappings_are_the_truth_to_the_page(tmp_path: Path, mode: str, allocator):
    library = {} if allocator is None else {"library": allocator.library}
    trace, accounts, truth = seen_at_marks(tmp_path, mode=mode, **library)
    assert list(truth) == ["full", "less"]
    for phase, told in truth.items():
        account = accounts[phase]
        stacks, of_malloc = told.pop("stacks"), told.pop("malloc")
        found = by_function(trace, account)
        assert {name: found[name] for name in told} == told
        parts = parts_of(account)
        assert parts["mapped"] == sum(told.values())
        assert stacks <= parts["stacks"] < stacks + MIB // 2
        assert parts["live"] == pytest.approx(of_malloc, rel=0.25)
        # What the dynamic linker maps for itself.
        assert parts["unknown"] < 700 * KIB
        assert account.rest[Resident.TRACER] < (16 if mode == "exact" else 2) * MIB


def test_what_was_given_back_lazily_is_told(tmp_path: Path) -> None:
    script = ("import ctypes, mmap, time\nkept = mmap.mmap(-1, 20 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
              "kept.write(bytes(20 << 20)); kept.madvise(8, 0, 12 << 20)\n"  # MADV_FREE
              "ctypes.CDLL(None).heapyard_trace_mark(b'free'); time.sleep(1)")
    trace = only(traced(tmp_path, "/usr/bin/python3", "-Ic", script))
    mark = next(s for s in trace.snapshots if s.kind == "mark")
    account = nearest(trace.accounts, mark.time)
    assert account is not None and (12 << 20) - 64 * KIB <= account.rest[Resident.LAZY] <= 12 << 20  # the kernel is behind
    assert parts_of(account)["mapped"] >= 20 << 20
    assert "12 MiB are given back, and the kernel may take them" in beside(account)


ROUNDED = """
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
extern void heapyard_trace_mark(const char*) __attribute__((weak));
int main(void) {
  size_t beyond = 0;
  for (int block = 0; block < 20000; ++block) {
    char* memory = malloc(1030);
    memset(memory, 1, 1030);
    beyond += malloc_usable_size(memory) - 1030;
  }
  heapyard_trace_mark("kept");
  const struct timespec pause = {1, 0};
  nanosleep(&pause, NULL);
  printf("%zu\\n", beyond);
}
"""


@pytest.mark.parametrize("allocator", ALLOCATORS, ids=lambda a: a.name if a else "glibc")
def test_what_blocks_are_larger_than_asked_for(tmp_path: Path, capfd: pytest.CaptureFixture[str], allocator) -> None:
    (tmp_path / "rounded.c").write_text(ROUNDED)
    subprocess.run(["cc", "-O1", "-fno-builtin", "-o", tmp_path / "rounded", tmp_path / "rounded.c"], check=True)
    library = None if allocator is None else allocator.library
    plan = {} if library is None else {"library": sampled_variant(library) or library, "told_by_heap": samples_itself(library)}
    trace = only(traced(tmp_path, tmp_path / "rounded", interval=1 << 12, **plan))
    beyond = int(capfd.readouterr().out)
    account = fullest(trace.accounts)
    assert account is not None
    size = 20_000 * 1030
    # What live blocks are estimated too large by, the rest of malloc's memory is too small by.
    assert account.rest[Resident.ROUNDING] == pytest.approx(beyond, rel=0.1, abs=doubt(trace, size))
    parts = parts_of(account)
    assert parts["live"] == pytest.approx(size, abs=0.02 * size + doubt(trace, size))


KINDS = """
import ctypes, mmap, os, signal, time
def mapping(size):
    return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
def beside(): return mapping(4 << 20)  # adjacent to the next: one area of the kernel's
def written_again(): return mapping(4 << 20)
def huge():
    made = mapping(16 << 20)
    made.madvise(14)  # MADV_HUGEPAGE
    return made
kept = [beside(), written_again(), huge()]
for one in kept: one.write(b"x" * len(one))
child = os.fork()
if child == 0: signal.pause()
kept[1].seek(0); kept[1].write(b"y" * len(kept[1]))
ctypes.CDLL(None).heapyard_trace_mark(b"full"); time.sleep(1)
at, inside = ctypes.addressof(ctypes.c_char.from_buffer(kept[2])), False
for words in map(str.split, open("/proc/self/smaps")):
    if not words[0].endswith(":"): inside = int(words[0].partition("-")[0], 16) <= at < int(words[0].partition("-")[2], 16)
    elif inside and words[0] == "AnonHugePages:": print(int(words[1]) << 10, flush=True)
os.kill(child, 9); os.wait()
"""


def test_what_of_a_mapping_is_shared_or_huge(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """After a fork both have it, until one of them writes; by call chain, to the page."""
    (tmp_path / "kinds.py").write_text(KINDS)
    run = traced(tmp_path, "/usr/bin/python3", "-IS", tmp_path / "kinds.py")
    in_huge_pages = int(capfd.readouterr().out)
    [parent] = [path for path in run.traces if any(s.kind == "mark" for s in load_trace(path).snapshots)]
    words = [sys.executable, "-I", "-m", "heapyard", "profile", "show", str(parent), "--at", "mark:full"]
    found = json.loads(subprocess.run([*words, "--json"], capture_output=True, text=True, check=True).stdout)["resident"]
    of = {frame["function"]: chain for chain in found["mapped"] for frame in chain["frames"]}
    assert (of["beside"]["bytes"], of["beside"]["shared_bytes"]) == (4 * MIB, 4 * MIB)
    assert (of["written_again"]["bytes"], of["written_again"]["shared_bytes"]) == (4 * MIB, 0)
    assert of["huge"]["bytes"] == of["huge"]["shared_bytes"] == 16 * MIB
    assert of["beside"]["huge_bytes"] == 0 and of["huge"]["swapped_bytes"] == 0
    assert of["huge"]["huge_bytes"] == in_huge_pages
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "1 mapping, 4 MiB shared\n" in shown


def test_an_instant_shows_the_nearest_account(tmp_path: Path) -> None:
    run = traced(tmp_path, program("mapped"), tmp_path / "truth")
    shown = {}
    for mark in ("full", "less"):
        words = [sys.executable, "-I", "-m", "heapyard", "profile", "show", str(run.traces[0]), "--at", f"mark:{mark}"]
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        assert re.search(r"All memory after [\d.]+ ms, the nearest look: [\d.]+ MiB resident", text)
        found = json.loads(subprocess.run([*words, "--json"], capture_output=True, text=True, check=True).stdout)
        shown[mark] = found["resident"]["parts"]["mapped"]
    truth = truth_of(tmp_path / "truth")
    given_back = sum(truth["full"].values()) - sum(truth["less"].values())
    assert shown["full"] - shown["less"] == given_back > 0


def test_python_objects_are_explained(tmp_path: Path):
    """They lie in arenas that Python maps: hardly any are blocks of malloc."""
    script = "kept = {i: (i, str(i)) for i in range(200_000)}; import time; time.sleep(2)"
    trace = only(traced(tmp_path, sys.executable, "-I", "-c", script))
    account = fullest(trace.accounts)
    assert account is not None and account.resident > 0.9 * trace.totals[:, 5].max()
    parts = parts_of(account)
    assert parts["mapped"] > 20 * MIB
    assert parts["unknown"] < 0.05 * account.resident


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
def test_what_node_maps_is_explained(tmp_path: Path):
    script = "const kept = []; for (let i = 0; i < 300000; i++) kept.push({i, s: 'x' + i}); setTimeout(() => {}, 2000)"
    trace = only(traced(tmp_path, "node", "-e", script))
    account = fullest(trace.accounts)
    assert account is not None and account.resident > 0.9 * trace.totals[:, 5].max()
    parts = parts_of(account)
    assert parts["mapped"] > 20 * MIB
    assert parts["unknown"] < 0.05 * account.resident


def test_a_child_has_an_account_of_its_own(tmp_path: Path):
    script = ("import os, time\nkept = bytearray(30_000_000)\nchild = os.fork()\n"
              "more = bytearray(20_000_000) if child == 0 else b''\ntime.sleep(1)\nif child: os.wait()")
    run = traced(tmp_path, sys.executable, "-I", "-c", script)
    traces = sorted((load_trace(path) for path in run.traces), key=lambda trace: trace.meta["pid"])
    assert len(traces) == 2
    for trace in traces:
        account = fullest(trace.accounts)
        assert account is not None and account.resident > 30_000_000
        parts_of(account)
    shared = fullest(traces[1].accounts)
    assert shared is not None and shared.shared > 25_000_000  # what the parent has too


CXX = '#include <regex>\n#include <map>\nint main() { std::regex r("a+"); std::map<int, std::regex> m; m[1] = r; }\n'
NODE = "const kept = []; for (let i = 0; i < 600000; i++) kept.push({i, s: 'x' + i}); setTimeout(() => {}, 300)"
PYTHON = "kept = {i: (i, str(i)) for i in range(300_000)}; import time; time.sleep(0.3)"
JAVA = ("import java.util.*; public class Kept { public static void main(String[] a) throws Exception {"
        " var kept = new ArrayList<int[]>();"
        " for (int i = 0; i < 3000000; i++) kept.add(new int[]{i}); Thread.sleep(300); System.out.println(kept.size()); } }")
SQL = ("create table t(a, b); with recursive c(n) as (select 1 union all select n + 1 from c where n < 400000)"
       " insert into t select n, hex(n) || 'some text' from c; create index i on t(b); select count(*) from t;")
NUMPY = "import numpy, time\nkept = [numpy.full(500_000, at, float) for at in range(20)]; time.sleep(0.3)"
PANDAS = ("import pandas, time; rows = range(300_000)\nkept = pandas.DataFrame({'a': rows, 'b': [str(at) for at in rows]})\n"
          "found = kept.groupby('b').sum(); time.sleep(0.3)")
REDIS = ("redis-server --port 0 --unixsocket {folder}/redis --save '' --enable-debug-command local > /dev/null & "
         "for turn in $(seq 100); do redis-cli -s {folder}/redis ping > /dev/null 2>&1 && break; sleep 0.1; done; "
         "redis-cli -s {folder}/redis debug populate 500000 > /dev/null; sleep 0.3; redis-cli -s {folder}/redis shutdown; wait")
# A server of its own, by a user who is not root.
POSTGRES = ("data={folder}/data; initdb -D $data > /dev/null && echo \"create table t as select n, md5(n::text) from "
            "generate_series(1, 400000) n; set work_mem = '256MB'; select count(*) from (select * from t order by 2) s;\" | "
            "postgres --single -c shared_buffers=64MB -D $data -j postgres > /dev/null")
RUST = """
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
fn build(count: usize) -> Vec<Vec<u8>> { (0..count).map(|at| vec![1u8; 100 + at % 900]).collect() }
fn main() { let kept = build(100_000); std::thread::sleep(std::time::Duration::from_millis(300)); println!("{}", kept.len()); }
"""
GO = """
package main
import "C"
import ("fmt"; "time")
func build(count int) [][]byte {
    kept := [][]byte{}
    for at := 0; at < count; at++ { kept = append(kept, make([]byte, 100 + at % 900)) }
    return kept
}
func main() { kept := build(100_000); time.Sleep(300 * time.Millisecond); fmt.Println(len(kept)) }
"""


def pyenv(version: str) -> str:
    """The path of a Python by the beginning of its version; one that is not there if there is none."""
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    return str(found[-1]) if found else f"python{version}"


def with_jemalloc(folder: Path) -> str:
    """A program of Rust that has jemalloc linked in. Skips where it cannot be built."""
    (folder / "src").mkdir()
    (folder / "src/main.rs").write_text(RUST)
    (folder / "Cargo.toml").write_text('[package]\nname = "kept"\nversion = "0.1.0"\nedition = "2021"\n'
                                       '[dependencies]\ntikv-jemallocator = "=0.6.0"\n')
    if shutil.which("cargo") is None or subprocess.run(["cargo", "build", "-q", "--release"], cwd=folder).returncode != 0:
        pytest.skip("cargo is missing, or cannot get jemalloc")
    return str(folder / "target/release/kept")


def with_cgo(folder: Path) -> str:
    """A program of Go that is linked with the C library. Skips where it cannot be built."""
    (folder / "kept.go").write_text(GO)
    if shutil.which("go") is None or subprocess.run(["go", "build", "-o", "kept_go", "kept.go"], cwd=folder).returncode != 0:
        pytest.skip("there is no Go here, or it has no C compiler")
    return str(folder / "kept_go")


COLUMNS = ("mapped", "live", "allocator", "stacks", "changed", "as_in_files", "other_files")
RUNS = {
    "Python, a dictionary of 300,000 tuples": ["/usr/bin/python3", "-I", "-c", PYTHON],
    "Python 3.9, the same": [pyenv("3.9"), "-I", "-c", PYTHON],
    "Python 3.13, the same": [pyenv("3.13"), "-I", "-c", PYTHON],
    "Python 3.14, the same": [os.environ.get("HEAPYARD_PYTHON", "python3.14"), "-I", "-c", PYTHON],
    "numpy, 20 arrays": [sys.executable, "-I", "-c", NUMPY],
    "pandas, 300,000 rows by group": [sys.executable, "-I", "-c", PANDAS],
    "Node, an array of 600,000 objects": ["node", "-e", NODE],
    "Java, a list of 3,000,000 arrays": ["java", "-XX:+UseSerialGC", "{folder}/Kept.java"],
    "g++, a source with <regex>": ["g++", "-O1", "-c", "-o", "/dev/null", "{folder}/source.cc"],
    "SQLite, 400,000 rows in memory": ["sqlite3", ":memory:", SQL],
    "Perl, a hash of 500,000 strings": [
        "perl", "-e", "my %h; $h{$_} = qq(value $_) for 1 .. 500000; select undef, undef, undef, 0.2"],
    "Redis, 500,000 keys": ["sh", "-c", REDIS],
    "PostgreSQL, 400,000 rows sorted": [
        "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", POSTGRES],
    "Rust with jemalloc linked in": ["{jemalloc}"],
    "Go with cgo, 100,000 slices": ["{cgo}"],
    "Chromium, headless on a page": [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "data:text/html,<p>x"],
}


def ends(words: list[str | Path], env: dict[str, str] | None = None) -> bool:
    """Whether a command under a tool ends in a minute."""
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False
    return True


def by_heaptrack(folder: Path, words: list[str], resident: int) -> str:
    """The peak that heaptrack sees, as a share of the resident memory; it follows the first process only."""
    if shutil.which("heaptrack") is None:
        return ""
    if not ends(["heaptrack", "-o", folder / "heaptrack", *words]):
        return "hangs"
    kept = next(iter(folder.glob("heaptrack.*")), None)
    told = subprocess.run(["heaptrack_print", "-f", kept], capture_output=True, text=True).stdout if kept else ""
    peak = re.search(r"^peak heap memory consumption: ([0-9.]+)([BKMG])", told, re.MULTILINE)
    return f"{float(peak[1]) * 1000 ** 'BKMG'.index(peak[2]) / resident:.0%}" if peak else "none"


def by_jemalloc(folder: Path, words: list[str], resident: int) -> str:
    """The most that jemalloc's profiler, told to count every block, sees in one process, as a share of the same memory."""
    found = find_allocators(["jemalloc"])
    if not found or found[0].library is None:
        return ""
    # A look each 4 MiB that were allocated. One at each new peak (prof_gdump) may wait for a lock that it has.
    conf = f"prof:true,lg_prof_sample:0,lg_prof_interval:22,prof_final:true,prof_prefix:{folder}/jeprof"
    env = {**os.environ, "LD_PRELOAD": str(found[0].library), "MALLOC_CONF": conf}
    if not ends(words, env):
        return "hangs"
    heads = (path.read_text(errors="replace")[:1000] for path in folder.glob("jeprof.*.heap"))
    live = [int(head[1]) for text in heads if (head := re.search(r"^\s*t\*: \d+: (\d+)", text, re.MULTILINE))]
    return f"{max(live) / resident:.0%}" if live else "none"


def by_memray(folder: Path, words: list[str], resident: int) -> str:
    """The peak of memray, which counts what is allocated and mapped, resident or not, as a share of the same memory.

    HEAPYARD_MEMRAY: a virtual environment that has memray, and numpy and pandas for their rows.
    """
    python = Path(os.environ.get("HEAPYARD_MEMRAY", "")) / "bin/python"
    if not python.is_file() or words[1:3] != ["-I", "-c"]:
        return ""
    versions = [subprocess.run([one, "-V"], capture_output=True, text=True).stdout.rsplit(".", 1)[0] for one in (words[0], python)]
    if versions[0] != versions[1]:
        return ""
    kept, told = folder / "memray.bin", folder / "memray.json"
    if not ends([str(python), "-m", "memray", "run", "--native", "-o", kept, "-c", words[3]]):
        return "hangs"
    subprocess.run([python, "-m", "memray", "stats", "--json", "-o", told, kept], capture_output=True)
    if not told.is_file():
        return "none"
    return f"{json.loads(told.read_text())['metadata']['peak_memory'] / resident:.0%}"


@pytest.mark.on_request
@pytest.mark.parametrize("name", RUNS)
def test_how_much_of_programs_is_explained(tmp_path: Path, name: str) -> None:
    """A row of docs/measured/resident.md: the process with most memory of its own."""
    (tmp_path / "source.cc").write_text(CXX)
    (tmp_path / "Kept.java").write_text(JAVA)
    words = [word.replace("{folder}", str(tmp_path)) for word in RUNS[name]]
    if "{jemalloc}" in words:
        words = [with_jemalloc(tmp_path)]
    if "{cgo}" in words:
        words = [with_cgo(tmp_path)]
    tmp_path.chmod(0o777)
    for parent in list(tmp_path.parents)[:2]:
        parent.chmod(0o755)
    if shutil.which(words[0]) is None:
        pytest.skip(f"there is no {words[0]} here")
    run = traced(tmp_path / "traces", *words)
    trace = load_trace(main_trace(list(run.traces)))
    account = fullest(trace.accounts)
    assert account is not None
    parts = {part.key: part.bytes for part in account.parts}
    blocks = parts["live"] / account.resident
    told = [f"{parts[key] / MIB:.1f}" for key in COLUMNS]
    explained = 1 - parts["unknown"] / account.resident
    whole = f"{account.resident / MIB:.0f} of {trace.totals[:, 5].max() / MIB:.0f}"
    others = []
    for tool in (by_heaptrack, by_jemalloc, by_memray):
        shutil.rmtree(tmp_path / "data", ignore_errors=True)  # which initdb wants to make anew
        others.append(tool(tmp_path, words, account.resident))
    print(f"\n| {name} | {whole} | {' | '.join(told)} | {blocks:.0%} | {' | '.join(others)} | {explained:.1%} |")
    assert explained > 0.95

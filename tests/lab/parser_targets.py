# SPDX-License-Identifier: Apache-2.0
"""Every reader of files and text that others write: valid samples, the form of damage, and how to read it.

A new reader is one entry of `targets`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import zstandard
from parser_damage import Container, Damage, Hit, bytes_hit, damaged, json_hit, lines_hit, toml_hit
from test_store import made

from heapyard import store
from heapyard.catalog import library_facts, mutators, own_heaps, program_inputs
from heapyard.catalog.elf import NotElfError, elf_facts, exported
from heapyard.catalog.executable_check import executable_flaw
from heapyard.catalog.peers.files import _read_peer
from heapyard.catalog.program_card import read_card
from heapyard.catalog.study import read_study
from heapyard.catalog.toml_file import read_toml
from heapyard.catalog.treatments import parse_cpus
from heapyard.execute.check_cases import _outcome
from heapyard.execute.environment import snapshot
from heapyard.execute.fuzz.campaign import Campaign
from heapyard.execute.fuzz.player import _violation
from heapyard.execute.launcher import read_launch
from heapyard.execute.mutator_result import read_result
from heapyard.execute.witness import read_testimonies
from heapyard.model.allocator import Allocator
from heapyard.model.fuzz import read_operations
from heapyard.model.memory_parts import MemoryParts
from heapyard.model.shared import CHUNK_HEAD, CHUNK_MAGIC, INDEX_MAGIC, TRACE_MAGIC, ChunkHead, ChunkKind
from heapyard.model.units import parse_duration, parse_percent
from heapyard.profile import perf_map, symbols
from heapyard.profile.chains import Naming
from heapyard.profile.mapped import mappings_as_blocks
from heapyard.profile.page import render
from heapyard.profile.summary_json import summary
from heapyard.profile.terminal import facts, warnings
from heapyard.profile.trace import load_trace
from heapyard.store.blobs import read_blob, write_blob
from heapyard.store.locks import _describe
from heapyard.store.memory_parts import read_memory_parts

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "data" / "parsers"


@dataclass(frozen=True, slots=True)
class Target:
    """`read` is given the damaged bytes, and an empty folder to put them into; it returns, or raises HeapyardError."""

    name: str
    samples: Callable[[], list[bytes]]
    form: Damage
    read: Callable[[bytes, Path], object]

    def damaged(self, sample: int, hits: list[Hit]) -> bytes:
        samples = self.samples()
        return damaged(samples[sample % len(samples)], hits, self.form)


def targets() -> list[Target]:
    """All of them, by what they read."""
    return [
        Target("trace", lambda: [_trace()], Container(_chunks, _trace_of, _chunk_hit), _read_trace),
        Target("perf-map", lambda: [_PERF_MAP], lines_hit, _read_perf_map),
        Target("addresses", lambda: [_ADDRESSES], lines_hit, lambda data, _: symbols._parse(data.decode(errors="replace"))),
        Target("study", _studies, toml_hit, lambda data, folder: read_study(_in(folder, "s.toml", data))),
        Target("program-card", lambda: _files("programs/*.toml")[::6] + [_SERVER], toml_hit, _read_card),
        Target("peer", lambda: _files("peers/*.toml")[::4], toml_hit, lambda data, folder: _read_peer(_in(folder, "p.toml", data))),
        Target("user-catalog", lambda: [_CATALOG], toml_hit, _read_catalog),
        Target("elf", lambda: [_small_elf()], bytes_hit, _read_elf),
        Target("experiment", lambda: [_experiment()], _database_hit, _read_experiment),
        Target("blob", lambda: [zstandard.ZstdCompressor().compress(_SERIES)], bytes_hit, _read_blob),
        Target("series", lambda: [_SERIES], lines_hit, _read_series),
        Target("memory-parts", _memory_parts, json_hit, _read_memory_parts),
        Target("stored-result", lambda: [_RESULT], json_hit, _read_stored_result),
        Target("mutator-result", lambda: [_RESULT], json_hit, _read_mutator_result),
        Target("launcher", lambda: [_LAUNCH], json_hit, _read_launch),
        Target("check-answer", lambda: [_ANSWER], json_hit, _read_answer),
        Target("fuzz-answer", lambda: [_FINDING, b"7\n" + _FINDING], json_hit, lambda data, _: _violation(data, b"words", 1)),
        Target("fuzz-state", lambda: [_STATE], json_hit, _read_state),
        Target("operations", lambda: [_OPERATIONS], lines_hit, lambda data, folder: read_operations(_in(folder, "x", data))),
        Target("witness", lambda: [_WITNESS], lines_hit, lambda data, folder: read_testimonies(_in(folder, "w", data))),
        Target("own-heaps", lambda: [_HEAPS], json_hit, _read_heaps),
        Target("mutator-list", lambda: [b'["acdc", "larson"]'], json_hit, _read_mutators),
        Target("library-facts", lambda: [_FACTS], json_hit, _read_facts),
        Target("input-manifest", lambda: [_MANIFEST], json_hit, _read_manifest),
        Target("lock", lambda: [_LOCK], json_hit, _read_lock),
        Target("machine", _machine_files, bytes_hit, _read_machine),
        Target("script", lambda: [b"#!/usr/bin/env -S A=1 python3 -u\n", b"#!/bin/sh\r\n"], lines_hit, _read_script),
        Target("units", lambda: [_UNITS], lines_hit, _read_units),
    ]


def _in(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@cache
def _files(pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(ROOT.glob(pattern))]


# Traces

_PERF_MAP = b"7f0000001000 40 f\n7f0000001040 20 LazyCompile:*g /x.js:12:3\n7f0000001060 9 py::h:/y.py\n"
_ADDRESSES = b"0x1000: f at /a.c:3:1\n (inlined by) g at ??:0\n0x2000: ?? at ??:0\n"

def _leb(*values: int) -> bytes:
    out = bytearray()
    for value in values:
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
    return bytes(out)


def _text(text: str) -> bytes:
    return _leb(len(text.encode())) + text.encode()


Chunk = tuple[str, bytes, int, int]

_META = {"format": 2, "pid": 7, "parent": 1, "attached": False, "mode": "sampled", "interval": 4096, "depth": 128,
         "page_record": 8192, "rate": 0.05, "started": 1.7e9, "program": "/bin/server", "allocator": "/lib/libc.so.6",
         "command": ["server", "-v"], "limit_bytes": 1 << 20, "time_unit": "microseconds", "address_bits": 64,
         "byte_order": "little"}
_END = {"how": "ended", "microseconds": 9000, "mode": "sampled", "interval": 4096, "widest_interval": 4096, "rate": 0.05,
        "events": 4, "records": 3, "allocations": 4, "frees": 1, "peak_bytes": 90000, "peak_at": 5000, "waits": 0,
        "lost": {"nested": 1, "marks": 0},
        "chains_cut": 1, "chains_torn": 1}


def _parts_of_trace() -> list[Chunk]:
    module = _leb(1, 0x400000, 0x500000, 0x400000) + _text("ab12") + _text("/bin/server")
    nodes = _leb(1, 0, 1, 0x10, 1, 1, 0x20, 2, 0, (1 << 56) + 1, 1, 0, 1)
    changes = _leb(100, 3, 2 * 90000, 0, 0, 10, 2, 2 * 90000, 0, 0, 10, 1, 2 * 90000, 5, 5, 1000, 3, 2 * 80000 - 1, 0, 0)
    account = _leb(90000, 200000, 4096, 0, 8, 100000, 0, 0, 4096, 0, 0, 0, 0, 3, 8192, 16384, 2, 0, 0, 0)
    return [
        ("M", json.dumps(_META).encode(), 0, 0), ("O", module, 0, 9000), ("N", nodes, 0, 9000),
        ("P", _leb(1, 12) + _text("main") + _text("/a.py"), 0, 9000), ("C", changes, 0, 2000),
        ("T", _leb(100, 90000, 0, 0, 4, 200000, 4, 1, 50, 10000, 5, 5, 2, 200000, 4, 3), 0, 9000),
        ("S", _text("mark") + _text("loaded") + _leb(90000, 3, 90000, 4, 100), 4000, 4000),
        ("S", _text("peak") + _text("") + _leb(90000, 3, 90000, 4, 100), 5000, 5000),
        ("A", account, 5000, 5000), ("S", _text("end") + _text("") + _leb(10000, 3, 10000, 1, 50), 9000, 9000),
        ("H", _leb(3, 0, 4, 90000, 0, 90000), 0, 9000), ("R", _leb(7) + _text("server") + _leb(4, 90000, 10000, 90000), 0, 9000),
        ("Z", _leb(60, 4, 90000), 0, 9000), ("E", json.dumps(_END).encode(), 9000, 9000),
        ("Y", json.dumps({"1": {"16": [["f", "a.c", 3], ["g", "", 0]], "32": [["h", "", 0]]}}).encode(), 0, 0),
    ]


def _trace() -> bytes:
    return _trace_of(_parts_of_trace())


def _trace_of(parts: Any) -> bytes:
    """A finished trace of these chunks, with the index that belongs to them."""
    data, index = TRACE_MAGIC.encode(), b""
    for kind, raw, begin, end in parts:
        index += _leb(ord(kind), len(data), begin, end)
        data += _packed(kind, raw, begin, end)
    return data + _packed("I", index, 0, 0) + struct.pack("<Q", len(data)) + INDEX_MAGIC.encode()


def _packed(kind: str, raw: bytes, begin: int, end: int) -> bytes:
    body = zstandard.ZstdCompressor().compress(raw)
    head = ChunkHead(CHUNK_MAGIC.encode(), kind.encode("latin-1"), b"", len(raw), len(body), zlib.crc32(body), 0, begin, end)
    return CHUNK_HEAD.pack(*head) + body


def _chunks(data: bytes) -> list[Chunk]:
    """The chunks of a trace that was made here; of one damaged by now, those it was made of."""
    found, at = [], len(TRACE_MAGIC)
    try:
        while data[at : at + 4] == CHUNK_MAGIC.encode():
            head = ChunkHead._make(CHUNK_HEAD.unpack_from(data, at))
            body = data[at + CHUNK_HEAD.size : at + CHUNK_HEAD.size + head.stored]
            if head.kind != b"I":
                found.append((head.kind.decode("latin-1"), zstandard.ZstdDecompressor().decompress(body), head.begin, head.end))
            at += CHUNK_HEAD.size + head.stored
    except (struct.error, zstandard.ZstdError):
        pass
    return found or _parts_of_trace()


def _chunk_hit(chunk: Chunk, hit: Hit) -> Chunk:
    kind, raw, begin, end = chunk
    if hit.how == 0:
        return list(ChunkKind)[hit.what % len(ChunkKind)].value, raw, begin, end
    return kind, (json_hit if kind in "MEY" else bytes_hit)(raw, hit), begin, end


def _read_trace(data: bytes, folder: Path) -> None:
    """All that is ever made of a trace: its summary, its page, every export."""
    trace = load_trace(_in(folder, "t.hytrace", data))
    frames = symbols.frames_of(trace)
    naming = Naming(trace, frames)
    summary(trace, naming)
    facts(trace)
    warnings(trace)
    render(trace)
    at = trace.snapshot("peak")
    if at is None:
        return
    for name in ("pprof", "perfetto", "speedscope", "heaptrack", "massif", "collapsed", "csv"):
        importlib.import_module(f"heapyard.profile.exports.{name}").render(trace, naming, at)
    if trace.accounts:
        mappings_as_blocks(trace)


def _read_perf_map(data: bytes, folder: Path) -> object:
    path = _in(folder, "perf-7.map", data)
    os.utime(path, (1.7e9, 1.7e9))
    trace = load_trace(_in(folder, "t.hytrace", _trace()))
    before, perf_map.FOLDER = perf_map.FOLDER, folder
    try:
        return perf_map.of_no_file(trace, [0x7F0000001000, 0x7F0000001041, 0x7F0000001068, 0, 1 << 64])
    finally:
        perf_map.FOLDER = before


# TOML

_STUDY = b"""
[study]
title = "t"
allocators = ["glibc"]
blocks = 3
budget = "5m"
precision = "1%"
pin = "0"
seed = 7
[study.margins]
time = "2%"
memory = 0.05
[factors]
thp = ["never", "always"]
[factors.env]
A = ["1", "2"]
[program.own]
command = ["true", "x"]
stdin = "~/in.txt"
env = { B = "c" }
expect_exit = 1
[allocator.mine]
library = "~/libmine.so"
[nested.jemalloc]
narenas = [1, 2]
"""
_MUTATOR_STUDY = b"""
[study]
mutator = "larson"
allocators = ["glibc"]
scale = "small"
[options]
rounds = 20
size = "{2 * size}"
[factors]
threads = [1, 2]
size = [8, 16]
[design]
constraints = ["size < 64 and threads != 3", "not size == 8 or threads < 4"]
[treatments.compact]
allocator = "glibc"
options = { access = true }
[scales.small.study]
blocks = 3
[[figures]]
title = "f"
metric = "wall"
over = "threads"
at = { size = 8 }
[[claims]]
text = "c"
kind = "flat_in"
metric = "wall"
over = "threads"
bounds = [0.5, 2.0]
at = { size = [8, 16] }
"""
_SERVER = b"""
title = "s"
about = "a"
area = "server"
command = ["redis-server", "--port", "{port}"]
env = { LC_ALL = "C" }
cwd = "~/x"
[server]
client = ["redis-cli", "-p", "{port}"]
stop = ["kill"]
ready_seconds = 2.5
client_answer = "^(a|b){1,3}$"
[sizes.quick]
n = 10
input = { documents = 3 }
"""
_CATALOG = b"""
[allocator.mine]
library = "~/libmine.so"
title = "m"
env = { A = "b" }
[allocator.mine.options]
separator = ","
variable = "MALLOC_CONF"
known = ["narenas"]
aliases = { n = "narenas" }
[program.tool]
command = ["true"]
"""


@cache
def _studies() -> list[bytes]:
    return [_STUDY, _MUTATOR_STUDY, *_files("studies/*.toml")[:3]]


def _read_card(data: bytes, folder: Path) -> object:
    return read_card("p", read_toml(_in(folder, "p.toml", data)))


def _read_catalog(data: bytes, folder: Path) -> None:
    from heapyard.catalog.allocators import _user_allocators
    from heapyard.catalog.library_facts import FactsCache

    (folder / "heapyard").mkdir()
    path = _in(folder / "heapyard", "catalog.toml", data)
    with _environment(XDG_CONFIG_HOME=str(folder), HEAPYARD_STATE=str(folder)):
        _user_allocators(FactsCache())
        table = read_toml(path).table("program")
        for name, entry in (table.tables() if table else {}).items():
            read_card(name, entry, own=True)


class _environment:
    def __init__(self, **values: str):
        self._values = values

    def __enter__(self) -> None:
        self._before = dict(os.environ)
        os.environ.update(self._values)

    def __exit__(self, *_: object) -> None:
        os.environ.clear()
        os.environ.update(self._before)


# ELF


def _small_elf() -> bytes:
    """A shared library of two pages: headers, a note, hash tables of both kinds, one symbol, names."""
    names = b"\0libx.so\0malloc\0libc.so.6\0"
    at = 64 + 56 * 4
    note = struct.pack("<3I", 4, 8, 3) + b"GNU\0" + bytes(range(8))
    symbols_ = bytes(24) + struct.pack("<IBBHQQ", 9, 0x12, 0, 1, 0x100, 16)
    gnu_hash = struct.pack("<4IQ2I", 1, 1, 1, 0, 0xFFFFFFFFFFFFFFFF, 1, _gnu(b"malloc") | 1)
    sysv = struct.pack("<5I", 1, 2, 1, 0, 0)
    places = {}
    body = b""
    for name, part in (("note", note), ("symbols", symbols_), ("gnu", gnu_hash), ("sysv", sysv), ("names", names)):
        body += bytes(-len(body) % 8)
        places[name] = at + len(body)
        body += part
    body += bytes(-len(body) % 8)
    dynamic_at = at + len(body)
    dynamic = b"".join(struct.pack("<qQ", tag, value) for tag, value in (
        (1, 16), (14, 1), (5, places["names"]), (6, places["symbols"]), (0x6FFFFEF5, places["gnu"]), (4, places["sysv"]), (0, 0)))
    size = dynamic_at + len(dynamic)
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<2HI3QI6H", 3, 62, 1, 0, 64, 0, 0, 64, 56, 4, 64, 0, 0)
    segments = b"".join(struct.pack("<2I6Q", kind, 4, begin, begin, begin, length, length, 8) for kind, begin, length in (
        (1, 0, size), (2, dynamic_at, len(dynamic)), (4, places["note"], len(note)), (3, places["names"] + 1, 8)))
    return header + segments + body + dynamic


def _gnu(name: bytes) -> int:
    hashed = 5381
    for byte in name:
        hashed = hashed * 33 + byte & 0xFFFFFFFF
    return hashed


def _read_elf(data: bytes, folder: Path) -> None:
    path = _in(folder, "libx.so", data)
    path.chmod(0o755)
    for read in (elf_facts, lambda path: exported(path, ["malloc", "free", ""])):
        try:
            read(path)
        except NotElfError as error:
            assert str(error) and "\n" not in str(error)
    library_facts.library_flaw(path)
    executable_flaw(path)


# What the store keeps

_SERIES = b"seconds,rss_bytes,pss_bytes\n0.000000,4096,-1\n0.250000,8192,8000\n"

@cache
def _experiment() -> bytes:
    with tempfile.TemporaryDirectory() as folder, _environment(HEAPYARD_LOCK=f"{folder}/lock"):
        return (made(Path(folder), blocks=1) / "experiment.sqlite").read_bytes()


def _database_hit(data: bytes, hit: Hit) -> bytes:
    """One cell of one table, as what it holds (text, number, JSON) would be damaged; or a row twice or missing."""
    with tempfile.TemporaryDirectory() as folder:
        path = _in(Path(folder), "x.sqlite", data)
        try:
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA ignore_check_constraints=ON")
            tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            table = tables[hit.at % len(tables)]
            rows = connection.execute(f"SELECT rowid, * FROM {table}").fetchall()
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            row, column = rows[hit.at // 64 % len(rows)], hit.what % len(names)
            if hit.how % 16 == 0:
                connection.execute(f"DELETE FROM {table} WHERE rowid = ?", row[:1])
            else:
                value = _cell(row[column + 1], hit)
                connection.execute(f"UPDATE {table} SET {names[column]} = ? WHERE rowid = ?", (value, row[0]))
            connection.commit()
            connection.close()
        except (sqlite3.Error, OverflowError, UnicodeError, ZeroDivisionError):
            return bytes_hit(data, hit)
        return path.read_bytes()


def _cell(value: Any, hit: Hit) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        return json_hit(value.encode(), Hit(hit.how % 62, hit.at // 512, hit.what)).decode(errors="replace")
    if isinstance(value, str):
        return lines_hit(value.encode(), hit).decode(errors="replace")
    return [None, -1, 0, 1 << 62, 1e308, float("nan"), "a", "9" * 400, float("inf"), -(1 << 63)][hit.how % 10]


def _read_experiment(data: bytes, folder: Path) -> None:
    """What show, diff and gate read of it, and the list of all."""
    from heapyard.store.records import _listed, plan_of

    _in(folder, "experiment.sqlite", data)
    _listed(folder)
    plan_of(folder)
    store.load_record(folder)


def _read_blob(data: bytes, folder: Path) -> None:
    name = hashlib.sha256(_SERIES).hexdigest()
    read_blob(_in(folder, f"{name}.zst", data).parent, name, "series")


def _read_series(data: bytes, folder: Path) -> object:
    return store.read_series(folder, write_blob(_made(folder / "series"), data))


def _read_memory_parts(data: bytes, folder: Path) -> object:
    return read_memory_parts(_in(folder, "memory.json", data).parent)


def _read_stored_result(data: bytes, folder: Path) -> object:
    return store.read_result(folder, write_blob(_made(folder / "results"), data))


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


@cache
def _memory_parts() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        parts = MemoryParts("p", "glibc", 10, {"live": 4, "rounding": 1, "allocator": 2, "other": 3}, 1)
        store.write_memory_parts(Path(folder), [parts])
        return [(Path(folder) / "memory.json").read_bytes()]


# What native parts and mutators write

_RESULT = json.dumps({
    "mutator": "x", "version": 1, "parameters": {"threads": 2}, "checksum": "00ff", "counts": {"allocations": 3},
    "metrics": [{"name": "ops", "unit": "operations/s", "direction": "higher", "value": 1.5},
                {"name": "wall", "unit": "ms", "direction": "lower", "value": None}]}).encode()
_LAUNCH = json.dumps({
    "status": "exited", "exit_code": 0, "pid": 7, "wall": 0.5, "user": 0.1, "sys": 0.1, "peak_rss": 4096,
    "samples": [[0.1, 4096, -1]],
    "processes": [{"pid": 7, "name": "a", "executable": "/bin/a", "looks": 2, "mapped": True}]}).encode()
_FINDING = b'{"finding":"overlap","text":"t","thread":1,"operation":5,"call":"malloc","in_child":true}'


_ANSWER = b'{"verdict":"pass","said":"","facts":{"a":[1.5,"B"],"b":"c"}}'
_STATE = b'{"library": "ab", "seed": 7, "operations": 100, "findings": []}'
_OPERATIONS = b"# --turns\n0 malloc 3 100 0\n1 aligned_alloc 2 64 32\n0 fork 0 60 7\n1 give 2 0 5\n"
_WITNESS = b"12\t/bin/a\tmalloc=/lib/x.so\tfree=/lib/x.so\n13\t/bin/b\tmalloc=(none)\n"
_HEAPS = b'[{"name": "bfm", "title": "t", "version": "1", "gives_up": ["a/b"]}]'
_FACTS = b'{"KEY": {"sha256": "a", "build_id": "b", "flaw": ""}, "KEY|package": {"package": "p", "version": "1"}}'
_MANIFEST = b'{"digest": "ab", "files": {"a.txt": [1, 2, "cd"]}}'
_LOCK = b'{"holder": "heapyard", "pid": 7, "since": 1700000000.5}'


def _read_answer(data: bytes, _: Path) -> object:
    return _outcome(data.decode(errors="replace"), "", 0, False, 1.0)


def _read_mutator_result(data: bytes, folder: Path) -> object:
    result, fault = read_result(_in(folder, "result.json", data))
    assert (result is None) == bool(fault) and "\n" not in fault
    return result


def _read_launch(data: bytes, folder: Path) -> object:
    found, complaint = read_launch(_in(folder, "launch.json", data))
    assert bool(found) != bool(complaint)
    return found


def _read_state(data: bytes, folder: Path) -> object:
    _in(folder, "state.json", data)
    campaign = Campaign.__new__(Campaign)
    campaign._folder, campaign._allocator = folder, Allocator("x", "x", "1", None, sha256="ab")
    campaign._seed, campaign._operations = 1, 0
    campaign._read()
    return campaign._seed


def _read_heaps(data: bytes, folder: Path) -> object:
    with _environment(HEAPYARD_STATE=str(folder)):
        (folder / "build" / "release").mkdir(parents=True)
        _in(folder / "build" / "release", "heaps.json", data)
        return own_heaps.own_heaps()


def _read_mutators(data: bytes, folder: Path) -> object:
    with _environment(HEAPYARD_STATE=str(folder)):
        (folder / "build" / "release").mkdir(parents=True)
        _in(folder / "build" / "release", "mutators.json", data)
        (folder / "build" / "release" / "bin").mkdir()
        _in(folder / "build" / "release" / "bin", "larson", b"").chmod(0o755)
        return mutators.find_mutator("larson")


def _read_facts(data: bytes, folder: Path) -> None:
    """A cache: whatever stands there, the facts are right afterwards."""
    library = _in(folder, "libx.so", _small_elf())
    with _environment(HEAPYARD_STATE=str(folder)):
        _in(folder, "library-facts.json", data.replace(b"KEY", library_facts._key(library).encode()))
        cache_ = library_facts.FactsCache()
        found = cache_.facts(library)
        assert all(isinstance(getattr(found, name), str) for name in ("sha256", "build_id", "flaw"))
        cache_.package(library, lambda: ("", ""))


def _read_manifest(data: bytes, folder: Path) -> None:
    _in(folder, "manifest.json", data)
    _in(folder, "a.txt", b"1")
    _in(folder, program_inputs._MANIFEST, data)
    if program_inputs._intact(folder):
        program_inputs.input_digest(folder)


def _read_lock(data: bytes, folder: Path) -> None:
    file = os.open(_in(folder, "lock", data), os.O_RDONLY)
    try:
        assert "\n" not in _describe(file)
    finally:
        os.close(file)


# Files of the kernel

_KERNEL = ("proc/meminfo", "proc/cpuinfo", "proc/stat", "proc/loadavg", "proc/self/status", "proc/self/cgroup", "proc/vmstat",
           "proc/buddyinfo", "sys/kernel/mm/transparent_hugepage/enabled", "etc/os-release", "proc/pressure/cpu")


@cache
def _machine_files() -> list[bytes]:
    """This machine's, each after a line with its name."""
    found = []
    for name in _KERNEL:
        try:
            found.append(f"{name}\n".encode() + (Path("/") / name).read_bytes()[:4000])
        except OSError:
            continue
    return found


def _read_machine(data: bytes, folder: Path) -> None:
    name, _, content = data.partition(b"\n")
    wanted = next((known for known in _KERNEL if known.encode() == name), _KERNEL[0])
    path = folder / wanted
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    snapshot(folder)


def _read_script(data: bytes, folder: Path) -> None:
    path = _in(folder, "script", data)
    path.chmod(0o755)
    flaw = executable_flaw(path)
    assert flaw is None or "\n" not in flaw[0]


# Words of the command line

_UNITS = b"5m\n1h30m\n250ms\n1%\n0.01\n0-1\n0,1\n0-99999999999\n1/4\n"


def _read_units(data: bytes, _: Path) -> None:
    from heapyard.catalog.fraction import read_share
    from heapyard.model.errors import UsageError

    for word in data.decode(errors="surrogateescape").split("\n"):
        for parse in (parse_duration, parse_percent, parse_cpus, read_share):
            try:
                parse(word)
            except UsageError:
                pass

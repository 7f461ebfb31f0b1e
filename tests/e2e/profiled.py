# SPDX-License-Identifier: Apache-2.0
"""Programs run under the tracer, and the truth that `truth` tells of its own memory."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import pytest

from heapyard.execute.collector import Plan
from heapyard.model import places
from heapyard.profile.chains import Naming
from heapyard.profile.symbols import frames_of
from heapyard.profile.trace import Snapshot, Trace, load_trace
from heapyard.profile.tracing import Traced, trace

Key = tuple[int, int, int, int]  # first<A>, second<B>, third<C>, depth of recursion
Truth = dict[str, dict[Key, tuple[int, int]]]  # probe -> chain -> (bytes, blocks)


def program(name: str) -> Path:
    path = places.native(name)
    if not path.exists():
        pytest.fail(f"{path} is not built; ./heapyard test builds it")
    return path


def traced(folder: Path, *words: object, **plan: object) -> Traced:
    """A command under the tracer; its traces in `folder`."""
    return trace(Plan([str(word) for word in words], **plan), folder)  # type: ignore[arg-type]


def may_become_another_user() -> bool:
    """Root may, but where a container knows no other user."""
    words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "true"]
    return os.geteuid() == 0 and subprocess.run(words, capture_output=True).returncode == 0


def only(run: Traced) -> Trace:
    [path] = run.traces
    return load_trace(path)


def doubt(trace: Trace, size: float) -> float:
    """Bytes that a sampled trace may be wrong by about `size` bytes: five standard errors, and all that found no room."""
    interval = trace.end["widest_interval"]
    return 5 * (size * interval) ** 0.5 + trace.end["lost"]["ring_full"] * interval


def truth_of(path: Path) -> Truth:
    told: Truth = {}
    for line in path.read_text().splitlines():
        if line.startswith("probe"):
            probe = told.setdefault(line, {})
        else:
            a, b, c, depth, size, blocks = map(int, line.split())
            probe[a, b, c, depth] = size, blocks
    return told


class Seen:
    """What a profile says of the same chains, told apart by their functions."""

    def __init__(self, trace: Trace):
        self._naming = Naming(trace, frames_of(trace))
        self._keys: dict[int, Key | None] = {}

    def key(self, node: int) -> Key | None:
        if node not in self._keys:
            found, depth = {}, -1
            for frame in self._naming.chain(node):
                named = re.match(r".*\b(first|second|third)<(\d+)", frame.function)
                if named:
                    found[named[1]] = int(named[2])
                elif re.search(r"\bdive\b", frame.function):
                    depth += 1
            whole = len(found) == 3 and depth >= 0
            self._keys[node] = (found["first"], found["second"], found["third"], depth) if whole else None
        return self._keys[node]

    def owned(self, snapshot: Snapshot) -> dict[Key, tuple[int, int]]:
        sums: dict[Key, list[int]] = defaultdict(lambda: [0, 0])
        for node, size, blocks in zip(snapshot.nodes.tolist(), snapshot.bytes.tolist(), snapshot.blocks.tolist(), strict=True):
            key = self.key(node)
            if key is not None:
                sums[key][0] += size
                sums[key][1] += blocks
        return {key: (size, blocks) for key, (size, blocks) in sums.items()}


def functions_at_end(trace: Trace) -> dict[str, int]:
    """Bytes that each function and what it called own at the end."""
    naming, found = Naming(trace, frames_of(trace)), {}
    end = trace.snapshot("end")
    assert end is not None
    for node, size in zip(end.nodes.tolist(), end.bytes.tolist(), strict=True):
        for frame in naming.chain(node):
            found[frame.function] = found.get(frame.function, 0) + size
    return found


def nothing_is_left() -> list[str]:
    """Zombies among our children, and processes of these tests that still hold a tracer's shared memory.

    Other tests may run on the machine: a process is of these if it has inherited their mark.
    """
    left = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
            maps = (status.parent / "maps").read_text()
            ours = _MARK in (status.parent / "environ").read_bytes()
        except OSError:
            continue
        name = text.splitlines()[0]
        if ours and "heapyard-trace" in maps:
            left.append(f"{status.parent.name} holds shared memory: {name}")
        if "State:\tZ" in text and "heapyard-collec" in name and f"PPid:\t{os.getpid()}\n" in text:
            left.append(f"{status.parent.name} is a zombie")
    return left


os.environ["TESTS_OF_HEAPYARD"] = f"{os.getpid()}-{time.monotonic_ns()}"
_MARK = f"TESTS_OF_HEAPYARD={os.environ['TESTS_OF_HEAPYARD']}".encode()


def run_quietly(*words: object) -> str:
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, check=True).stdout

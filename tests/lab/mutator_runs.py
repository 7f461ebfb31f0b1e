# SPDX-License-Identifier: Apache-2.0
"""Running a mutator, and a slow model of what all mutators share: random numbers and the operations they log."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from heapyard.model import places

MASK = 2**64 - 1


class Operation(NamedTuple):
    """One call of the heap. `object` is the workload's name of it; `size` is 0 for free."""

    call: str
    object: int
    size: int


def run(
    name: str, *options: str, preload: Path | None = None, env: Mapping[str, str] | None = None, limit_kib: int = 0
) -> subprocess.CompletedProcess[str]:
    command: Sequence[str] = [str(places.native(name)), *options]
    if limit_kib:
        command = ["sh", "-c", f'ulimit -v {limit_kib}; exec "$0" "$@"', *command]
    environment = {"PATH": "/usr/bin:/bin", **(env or {})}
    if preload:
        environment["LD_PRELOAD"] = str(preload)
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)


def measure(name: str, *options: str, **how: object) -> dict:
    """The result as the lab reads it."""
    done = run(name, *options, "--format", "none", "--json", "-", **how)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def metric(result: dict, name: str) -> float:
    return next(m["value"] for m in result["metrics"] if m["name"] == name)


def logged(folder: Path, name: str, *options: str) -> dict[int, list[Operation]]:
    """What each thread asked of the heap, in its order."""
    file = folder / "operations"
    done = run(name, *options, "--format", "none", "--log-operations", str(file))
    assert done.returncode == 0, done.stderr
    threads: dict[int, list[Operation]] = {}
    for line in file.read_text().splitlines():
        thread, call, number, size = line.split()
        threads.setdefault(int(thread), []).append(Operation(call, int(number), int(size)))
    return threads


def share(everything: int, parts: int, index: int) -> int:
    """Part `index` when `everything` is dealt out: the first ones get what is left over."""
    return len(range(index, everything, parts))


def _mix(value: int) -> int:
    value ^= value >> 30
    value = value * 0xBF58476D1CE4E5B9 & MASK
    value ^= value >> 27
    value = value * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


class Random:
    """SplitMix64, keyed by seed and stream, in Python's own big numbers."""

    def __init__(self, seed: int, stream: int) -> None:
        key = stream * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D & MASK
        self.state = _mix(_mix(seed + 0x9E3779B97F4A7C15 & MASK) ^ key)

    def next(self) -> int:
        self.state = self.state + 0x9E3779B97F4A7C15 & MASK
        return _mix(self.state)

    def below(self, bound: int) -> int:
        while True:
            product = self.next() * bound
            if product & MASK >= 2**64 % bound:
                return product >> 64

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def percent(self, percent: int) -> bool:
        return self.below(100) < percent

    def octave(self, low: int, high: int, index: int | None = None) -> int:
        """A number of [low, high] whose power of two is drawn first, or given by its place among those of the range."""
        first, last = low.bit_length() - 1, high.bit_length() - 1
        power = self.between(first, last) if index is None else first + index
        return self.between(max(low, 2**power), min(high, 2 ** (power + 1) - 1))


def malloc(number: int, size: int) -> Operation:
    return Operation("malloc", number, size)


def free(number: int) -> Operation:
    return Operation("free", number, 0)

# SPDX-License-Identifier: Apache-2.0
"""Programs that check every answer they get, and cycles of attaching to them and letting go again."""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest
from profiled import program

from heapyard.execute.collector import Collector, Plan
from heapyard.profile.attaching import inject

INTERRUPTED = ("read", "poll", "poll-limited", "select", "epoll", "epoll-limited", "nanosleep", "clock-nanosleep", "futex",
               "futex-limited", "wait", "semop", "sigwaitinfo", "sigsuspend", "recv-limited", "io_getevents", "io_uring")
RESTLESS = ("forks", "allocates", "threads", "signals", "seccomp-wide")
_LACKING = 77  # tests/native/tracer/beside.h


class Subject:
    """A program of tests/native/tracer that works until its input ends, and then tells whether all answers were right."""

    def __init__(self, words: Sequence[object]):
        self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.about = []
        while (line := self.process.stdout.readline().strip()) != "working":
            if line.startswith("lacking: ") or not line:
                self.process.communicate()
                if self.process.returncode == _LACKING:
                    pytest.skip(f"this machine has no {line.removeprefix('lacking: ')}")
                pytest.fail(f"{words} ended with {self.process.returncode}: {line}")
            self.about.append(line)

    @property
    def pid(self) -> int:
        return self.process.pid

    def answers(self) -> int:
        """Ends it; how many answers it has checked. Fails if one was wrong, or if it did not live to the end."""
        # Not communicate(): it forgets what came together with the line "working" that was read before.
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        late = threading.Timer(120, self.process.kill)
        late.start()
        out = self.process.stdout.read()
        self.process.wait()
        late.cancel()
        assert self.process.returncode == 0, f"{self.process.args} ended with {self.process.returncode}: {out}"
        assert out.startswith("right "), out
        return int(out.split()[1])


@contextmanager
def working(*words: object) -> Iterator[Subject]:
    subject = Subject(words)
    try:
        yield subject
    finally:
        subject.process.kill()
        subject.process.wait()


def subject_words(name: str) -> list[object]:
    """The command of a subject by its short name."""
    if name == "registers":
        return [program("registers_kept")]
    return [program("interrupted" if name in INTERRUPTED else "restless"), name]


def code_of(pid: int) -> dict[str, bytes]:
    """Every byte that a process can execute, by where it lies. The kernel's own page is left out."""
    found = {}
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            fields = line.split(None, 5)
            if "x" in fields[1] and "[v" not in line:
                begin, end = (int(part, 16) for part in fields[0].split("-"))
                memory.seek(begin)
                found[line] = memory.read(end - begin)
    return found


def mapped(pid: int) -> list[str]:
    """The mappings of a process but its heap and stack, which it may grow."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line for line in lines if "[heap]" not in line and "[stack]" not in line]


@dataclass
class Told:
    """What the injectors of a number of cycles have told. Times in milliseconds."""

    endings: dict[str, int] = field(default_factory=dict)
    stops: list[float] = field(default_factory=list)
    looks: int = 0
    longest_look: float = 0.0
    mended: int = 0
    texts: set[str] = field(default_factory=set)

    def add(self, answer: dict[str, str]) -> None:
        ending = answer["ending"]
        self.endings[ending] = self.endings.get(ending, 0) + 1
        self.looks += int(answer["looks"])
        self.mended += int(answer["mended"])
        self.longest_look = max(self.longest_look, int(answer["longest-look-ns"]) / 1e6)
        if ending == "called":
            assert answer["result"] == "0", answer
            self.stops.append(int(answer["stopped-ns"]) / 1e6)
        else:
            self.texts.add(answer["text"])

    def row(self, name: str, answers: int) -> str:
        """A line of the table in docs/measured/attaching.md."""
        times = f"{median(self.stops):.1f} | {max(self.stops):.1f}" if self.stops else "- | -"
        others = ", ".join(f"{count} {ending}" for ending, count in self.endings.items() if ending != "called") or "none"
        return f"| {name} | {self.endings.get('called', 0)} | {others} | {times} | {self.looks} | {answers:,} |"


def cycles(pid: int, count: int, folder: Path, meanwhile: Callable[[], None] = lambda: None) -> Told:
    """Attaches to process `pid` and lets go again, `count` times, at instants drawn at random."""
    told, draw = Told(), random.Random(pid)
    for turn in range(count):
        time.sleep(draw.uniform(0, 0.004))
        mode = ("exact", "sampled")[turn % 2]
        collector = Collector(folder, Plan([], mode=mode, attached=True))
        try:
            told.add(inject(pid, collector.library, "heapyard_trace_attach", collector.wish))
        finally:
            collector.stop()
        meanwhile()
        shutil.rmtree(folder)
    return told

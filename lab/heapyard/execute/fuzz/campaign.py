# SPDX-License-Identifier: Apache-2.0
"""Rounds of random operations under one library, for as long as one likes; it goes on where the last one ended."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path

from ...model.allocator import Allocator
from ...model.damage import DAMAGE, object_of
from ...model.errors import UsageError
from ...model.fuzz import FuzzAnswer, FuzzFinding, Operation, Round, Violation, draw_round, read_operations
from ..scratch import ScratchFolder
from .player import AGAIN, FIRST, Player
from .shrink import shortened

TRIES = 5  # runs that tell how often operations find the same again
MOST_TRIES = 20
SHORTENING = 60.0  # seconds for one finding
# Called with the operations so far, the number of findings, and what was just found.
Say = Callable[[int, int, str], None]
MOST_FINDINGS = 8  # that are looked into; more of a library so broken say nothing new


def _silent(operations: int, findings: int, finding: str) -> None:
    pass


class Campaign:
    """All rounds of one library. `folder`: where it keeps how far it is and what it found; made if it is not there.

    The rounds of another build of the library begin anew; what was found of it before is played first.
    """

    def __init__(self, allocator: Allocator, folder: Path, stop: threading.Event, threads: int | None = None):
        self._allocator, self._folder, self._stop, self._threads = allocator, folder, stop, threads
        self._player = Player(allocator, stop)
        self._seed, self._operations = 1, 0
        self.findings: list[FuzzFinding] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._read()

    def child_of(self, operation: Operation) -> list[Operation]:
        """What the child of a fork plays."""
        return self._player.child_of(operation)

    @property
    def operations(self) -> int:
        """Of all rounds of this build so far."""
        return self._operations

    def run(
        self, seconds: float | None, operations: int | None, files: Iterable[Path] = (),
        say: Say = _silent, corpus: Iterable[Path] = (),
    ) -> FuzzAnswer:
        """Random rounds until one of both is used up; None: it does not count. `files`: operations that are played first, each
        several times. `corpus`: files of one thread that a campaign which begins plays once; what they find is made shorter.
        """
        began, before = time.monotonic(), self._operations
        complete = True
        try:
            for path in [*files, *sorted(self._folder.glob("*.operations"))]:
                self._play_file(path)
            for path in corpus if before == 0 else ():
                self._play_corpus(path, say)
            self._play_rounds(began, seconds, self._operations, operations, say)
        except KeyboardInterrupt:
            complete = False
            self._stop.set()
        took = time.monotonic() - began
        return FuzzAnswer(self._allocator.name, self._operations, self._operations - before, took, self.findings, complete)

    def _play_rounds(
        self, began: float, seconds: float | None, before: int, operations: int | None, say: Say,
    ) -> None:
        workers = max(1, len(os.sched_getaffinity(0)))
        running: dict[Future[tuple[int, Violation | None]], Round] = {}
        pool = ThreadPoolExecutor(workers)

        def wanted() -> bool:
            planned = self._operations - before + sum(round_.operations for round_ in running.values())
            in_time = seconds is None or time.monotonic() - began < seconds
            return in_time and (operations is None or planned < operations) and len(self.findings) < MOST_FINDINGS

        try:
            while running or wanted():
                while len(running) < workers and wanted():
                    round_ = draw_round(self._seed, self._threads)
                    self._seed += 1
                    running[pool.submit(self._player.play, round_)] = round_
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    played, violation = future.result()
                    if violation is not None:
                        self._look_into(running[future], violation, say)
                    del running[future]
                    self._operations += played
                    self._write(min((round_.seed for round_ in running.values()), default=self._seed))
                    say(self._operations, len(self.findings), "")
        finally:
            if self._stop.is_set():
                pool.shutdown(cancel_futures=True)
            pool.shutdown()

    def _play_file(self, path: Path) -> None:
        operations, ways = read_operations(path)
        threads = 1 + max((operation.thread for operation in operations), default=0)
        round_ = Round(0, len(operations), threads, "turns" in ways, "signals" in ways)
        for tried in range(1, TRIES + 1):
            violation = self._player.replay(path, round_, len(operations))
            self._operations += len(operations)
            if violation is not None:
                if self._is_new(violation):
                    self.findings.append(FuzzFinding(path.stem, violation, round_, operations, 1, tried, self._operations))
                return

    def _play_corpus(self, path: Path, say: Say) -> None:
        operations, _ = read_operations(path)
        round_ = Round(0, len(operations))  # of no seed
        violation = self._player.replay(path, round_, len(operations))
        self._operations += len(operations)
        if violation is not None:
            self._look_into(round_, violation, say, operations)

    def _is_new(self, violation: Violation) -> bool:
        return (violation.kind, violation.call) not in {(f.violation.kind, f.violation.call) for f in self.findings}

    def _look_into(self, round_: Round, violation: Violation, say: Say, all_: tuple[Operation, ...] = ()) -> None:
        """`all_`: what was played, where no seed says it."""
        if not self._is_new(violation):
            return
        say(self._operations, len(self.findings), f"found {violation.kind}: {violation.text}; making it shorter")
        all_ = all_ or self._player.operations_of(round_)
        first = FIRST if violation.kind == "hang" else AGAIN
        end = time.monotonic() + SHORTENING
        with ScratchFolder() as folder:
            file = folder / "operations"

            def finds(operations: tuple[Operation, ...]) -> bool:
                file.write_text("".join(f"{operation}\n" for operation in operations))
                found = self._player.replay(file, round_, len(operations), first)
                return found is not None and found.kind == violation.kind

            for operations in dict.fromkeys((_up_to(all_, violation, round_), all_)):
                shown = sum(finds(operations) for _ in range(TRIES) if time.monotonic() < end)
                if shown:
                    break
            tries = 1 if shown == TRIES else math.ceil(min(MOST_TRIES, 3 * TRIES / max(shown, 1)))
            if shown:
                operations = shortened(operations, lambda ops: any(finds(ops) for _ in range(tries)), SHORTENING)
                shown = sum(finds(operations) for _ in range(TRIES))
            else:
                operations = ()
        name = f"{violation.kind}-{violation.call or 'any'}-{round_.seed}".replace("[]", "s")
        self.findings.append(FuzzFinding(name, violation, round_, operations, shown, TRIES, self._operations))
        if operations:
            lines = [f"# {' '.join(round_.ways)}", f"# {violation.kind}: {violation.text}", *map(str, operations)]
            (self._folder / f"{name}.operations").write_text("".join(f"{line}\n" for line in lines))

    def _read(self) -> None:
        path = self._folder / "state.json"
        try:
            kept = object_of(path.read_bytes())
            if kept["library"] == self._allocator.sha256:
                self._seed, self._operations = (_count(kept[name]) for name in ("seed", "operations"))
        except FileNotFoundError:
            return
        except DAMAGE:
            raise UsageError(f"{path} is damaged", remedy="With --afresh it is written anew.") from None

    def _write(self, seed: int) -> None:
        """At once, or not at all. `seed`: of the first round that has not ended; the next command begins with it."""
        text = json.dumps({"library": self._allocator.sha256, "seed": seed, "operations": self._operations,
                           "findings": [asdict(finding.violation) for finding in self.findings]}, indent=1)
        new = self._folder / "state.json.new"
        new.write_text(text)
        new.replace(self._folder / "state.json")


def _count(told: object) -> int:
    if type(told) is not int or not 0 <= told < 1 << 62:
        raise ValueError(f"{told!r} is no count")
    return told


def _up_to(operations: tuple[Operation, ...], violation: Violation, round_: Round) -> tuple[Operation, ...]:
    """Those before the violation. Where threads run as they like, others may have been further by then: twice as many."""
    left = violation.operation
    for index, operation in enumerate(operations):
        left -= operation.thread == violation.thread
        if left <= 0 and violation.operation > 0:
            return operations[: index + 1 if round_.turns or round_.threads == 1 else 2 * index + 2]
    return operations

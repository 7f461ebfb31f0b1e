# SPDX-License-Identifier: Apache-2.0
"""Rounds through the tests of several suites under one library, for as long as one likes; it goes on where the last one ended."""

from __future__ import annotations

import hashlib
import itertools
import random
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...model.allocator import Allocator
from ...model.soak import Compared, ProgramAnswer, Run, SoakAnswer, Suite
from ..scratch import ScratchFolder
from .one_test import SKIPPED, move_output, run_test
from .record import GLIBC, Record
from .slots import a_slot
from .workshop import Workshop

AGAIN = 4  # runs more, under both, of a test that differs
AGAIN_HUNG = 1  # where each takes the whole limit
LEAST_LIMIT = 60.0  # seconds; shorter tests are at the mercy of a busy machine
SLOWER = 5.0  # times what it takes under glibc: longer is a hang
UNKNOWN = 10.0  # seconds; the place in the first round of a test that glibc has not run
HANGS = "hangs"

Judged = list[tuple[str, int, Run]]  # library, round, run
Say = Callable[[str], None]


@dataclass
class Program:
    """A suite that is ready, and how far it is. `used`: seconds of this command, by which the suites take turns."""

    shop: Workshop
    round: int = 1
    left: list[str] = field(default_factory=list)
    running: int = 0
    used: float = 0.0
    now: int = 0


class Campaign:
    """All suites under one library. `folder`: where the record and what differs are kept, one below it for each library."""

    def __init__(
        self, allocator: Allocator, glibc: Allocator, shops: Sequence[Workshop], broken: Sequence[tuple[Suite, str]], folder: Path,
        stop: threading.Event, jobs: int, afresh: bool = False,
    ):
        """`broken`: suites that cannot run, and the sentence that says why."""
        self._allocator, self._glibc, self._stop, self._jobs = allocator, glibc, stop, jobs
        self._broken = broken
        self._identity = hashlib.sha256(f"{allocator.sha256}{sorted(allocator.env.items())}".encode()).hexdigest()
        self._folder = folder / allocator.name.replace("/", "_")
        self._record = Record(folder / "soak.sqlite")
        self._programs = [Program(shop) for shop in shops]
        if afresh:
            for shop in shops:
                self._record.forget(shop.suite.name, self._identity)
                shutil.rmtree(self._folder / shop.suite.name, ignore_errors=True)
        for program in self._programs:
            self._plan(program)

    def close(self) -> None:
        self._record.close()

    def run(self, seconds: float, say: Say, note: Say) -> SoakAnswer:
        """Until the time is used; the tests that run then come to their end. `say`: how far it is; `note`: what was found."""
        began = time.monotonic()
        running: dict[Future[Judged], tuple[Program, str, float]] = {}
        pool = ThreadPoolExecutor(self._jobs)
        try:
            while True:
                while len(running) < self._jobs and time.monotonic() - began < seconds and not self._stop.is_set():
                    program = self._next()
                    if program is None:
                        break
                    test = program.left.pop(0)
                    program.running += 1
                    known = self._record.runs(program.shop.suite.name, program.shop.key, GLIBC, test)
                    future = pool.submit(self._judge, program.shop, program.round, test, known)
                    running[future] = program, test, time.monotonic()
                    say(self._where(program, test))
                if not running:
                    break
                for future in wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done:
                    program, test, started = running.pop(future)
                    self._take(program, test, future.result(), time.monotonic() - started, note)
        except KeyboardInterrupt:
            self._stop.set()
        except BaseException:
            self._stop.set()  # what still runs ends now
            raise
        finally:
            pool.shutdown(cancel_futures=self._stop.is_set())
        return SoakAnswer(self._allocator.name, time.monotonic() - began, self._answers(), not self._stop.is_set())

    def _next(self) -> Program | None:
        """The program that has had the least time. A round begins when the one before has ended; None: all wait for that."""
        ready = [program for program in self._programs if program.left or not program.running]
        program = min(ready, key=lambda program: program.used, default=None)
        if program and not program.left:
            self._plan(program)
        return program

    def _plan(self, program: Program) -> None:
        """The tests that are left of the first round that is not complete, shuffled by its number.

        The first round has short ones first, as far as glibc's time is known.
        """
        shop = program.shop
        rounds = self._record.rounds(shop.suite.name, shop.key, self._identity)
        program.round = next(number for number in itertools.count(1) if not rounds.get(number, set()).issuperset(shop.tests))
        tests = list(shop.tests)
        random.Random(program.round).shuffle(tests)
        if program.round == 1:
            known = {run.test: run.seconds for run in self._record.runs(shop.suite.name, shop.key, GLIBC)}
            tests.sort(key=lambda test: known.get(test, UNKNOWN))
        program.left = [test for test in tests if test not in rounds.get(program.round, ())]

    def _where(self, program: Program, test: str) -> str:
        total = len(program.shop.tests)
        return f"{program.shop.suite.name}, round {program.round}, {total - len(program.left)}/{total}: {test}"

    def _take(self, program: Program, test: str, judged: Judged, seconds: float, note: Say) -> None:
        program.running -= 1
        program.used += seconds
        program.now += sum(library != GLIBC for library, _, _ in judged)
        shop = program.shop
        self._record.add(shop.suite.name, shop.key, judged)
        compared = Compared(test, self._record.runs(shop.suite.name, shop.key, self._identity, test),
                            self._record.runs(shop.suite.name, shop.key, GLIBC, test))
        if compared.again and any(run.marks & compared.again.keys() for library, _, run in judged if library != GLIBC):
            note(f"{shop.suite.name}: {test}: {', '.join(list(compared.again)[:3])}")

    # In a thread of its own ----------------------------------------------------------------------------------------------

    def _judge(self, shop: Workshop, round_: int, test: str, known: Sequence[Run]) -> Judged:
        """The runs of one test: one under the library, one under glibc if there was none, more of both where they differ."""
        judged: Judged = []
        there = list(known)
        with ScratchFolder() as outputs, a_slot() as slot:

            def once(allocator: Allocator, library: str, limit: float) -> Run:
                if self._stop.is_set():
                    raise KeyboardInterrupt
                run = run_test(shop, test, allocator, limit, slot, self._stop, outputs / str(len(judged)))
                judged.append((library, round_, run))
                return run

            if not there:
                there.append(once(self._glibc, GLIBC, shop.suite.limit))
            ended = [run.seconds for run in there if HANGS not in run.marks]
            limit = max(LEAST_LIMIT, SLOWER * max(ended)) if ended else shop.suite.limit
            run = once(self._allocator, self._identity, limit)
            new = run.marks - frozenset().union(*(run.marks for run in there))
            for _ in range(AGAIN_HUNG if HANGS in new else AGAIN if new else 0):
                once(self._glibc, GLIBC, max(limit, shop.suite.limit))
                once(self._allocator, self._identity, limit)
            return [(library, at, self._kept(shop, run, library, new)) for library, at, run in judged]

    def _kept(self, shop: Workshop, run: Run, library: str, new: frozenset[str]) -> Run:
        """What it wrote is kept if it shows what is new, or beside that what glibc shows."""
        if not new or library != GLIBC and not run.marks & new:
            return replace(run, output="")
        name = "".join(c if c.isalnum() or c in "._-" else "-" for c in run.test)[:120]
        folder = self._folder / shop.suite.name
        return replace(run, output=move_output(run.output, folder / f"{name}{'.glibc' if library == GLIBC else ''}.txt"))

    # What it comes to ------------------------------------------------------------------------------------------------------

    def _answers(self) -> tuple[ProgramAnswer, ...]:
        answers = [self._answer(program) for program in self._programs]
        return (*answers, *(ProgramAnswer(suite, remedy=why) for suite, why in self._broken))

    def _answer(self, program: Program) -> ProgramAnswer:
        shop = program.shop
        name, key, tests = shop.suite.name, shop.key, set(shop.tests)
        compared = [c for c in self._record.compared(name, key, self._identity) if c.test in tests]
        glibc: dict[str, Run] = {}
        for run in self._record.runs(name, key, GLIBC):
            glibc.setdefault(run.test, run)
        here = [run for c in compared for run in c.here]
        rounds = sum(tests <= done for done in self._record.rounds(name, key, self._identity).values())
        return ProgramAnswer(
            shop.suite, shop.version, len(tests), len(compared), rounds, program.now, sum(c.here[0].cases for c in compared),
            sum(run.served for run in here), sum(_fails(glibc[c.test]) for c in compared if c.test in glibc),
            tuple(sorted({program for run in here for program in run.elsewhere})),
            tuple(c for c in compared if c.again), tuple(c for c in compared if c.once and not c.again),
        )


def _fails(run: Run) -> bool:
    return any(mark != SKIPPED and not mark.startswith("output ") for mark in run.marks)

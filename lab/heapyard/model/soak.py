# SPDX-License-Identifier: Apache-2.0
"""What `heapyard soak` runs, what one run of a test showed, and when that differs from what glibc shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import comb
from pathlib import Path

CHANCE = 0.001  # above it, a mark that glibc shows as well is no difference


@dataclass(frozen=True)
class Suite:
    """The tests of one program. `build`, `list` and `run` are shell scripts; docs/soak.md says what they are given.

    `failed`: a regular expression whose first group is the name of a case that failed; `cases`: one whose first group is
    a number of cases, or that matches once per case. `answer`: what a run writes must be what it writes under glibc.
    `left_out`: patterns of tests that are never run, and why.
    """

    name: str
    file: Path
    title: str
    about: str
    packages: tuple[str, ...] = ()
    source: str = ""  # Debian's source package, "" if the tests come in `packages`
    checkout: bool = False  # whether it needs the files of a checkout of this project
    version: str = ""  # a script that prints what else determines the results
    build: str = ""
    list: str = ""
    run: str = ""
    env: dict[str, str] = field(default_factory=dict)
    limit: float = 900.0  # seconds that a test may take under glibc
    skipped: tuple[int, ...] = ()  # exit codes that say that a test does not apply here
    failed: str = ""
    cases: str = ""
    answer: bool = False
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a test. `marks`: all that went wrong, one word or line each; none if the test passed.

    `served`: processes whose malloc was the library's; `elsewhere`: programs whose malloc was not, and whose it was.
    """

    test: str
    marks: frozenset[str]
    cases: int
    seconds: float
    served: int = 0
    elsewhere: tuple[str, ...] = ()
    output: str = ""  # where it is kept, "" if it is not


def came_again(shown: int, tried: int, there: int, tried_there: int) -> bool:
    """Whether a mark of `shown` of `tried` runs, and of `there` of `tried_there` under glibc, is a difference.

    One that glibc never shows must come twice. Else Fisher's exact test says how easily chance brings it: it must be
    below CHANCE, as thousands of tests are compared. O(shown).
    """
    if shown < 2:
        return False
    if not there:
        return True
    runs, marked = tried + tried_there, shown + there
    ways = sum(comb(tried, k) * comb(tried_there, marked - k) for k in range(shown, min(tried, marked) + 1))
    return ways < CHANCE * comb(runs, marked)


@dataclass(frozen=True)
class Compared:
    """All runs of one test under the library and under glibc."""

    test: str
    here: Sequence[Run]
    there: Sequence[Run]

    @cached_property
    def counts(self) -> Mapping[str, tuple[int, int]]:
        """Each mark that the library shows: in how many runs under each."""
        here = Counter(mark for run in self.here for mark in run.marks)
        there = Counter(mark for run in self.there for mark in run.marks)
        return {mark: (count, there[mark]) for mark, count in sorted(here.items())}

    @property
    def again(self) -> dict[str, tuple[int, int]]:
        """Those that are a difference."""
        runs = len(self.here), len(self.there)
        return {mark: (a, b) for mark, (a, b) in self.counts.items() if came_again(a, runs[0], b, runs[1])}

    @property
    def once(self) -> dict[str, tuple[int, int]]:
        """Those that came, did not come again, and never came under glibc."""
        return {mark: (a, b) for mark, (a, b) in self.counts.items() if a == 1 and not b}

    @property
    def output(self) -> str:
        """The file of the last run under the library that kept one, "" if none did."""
        return next((run.output for run in reversed(self.here) if run.output and run.marks), "")

    @property
    def output_there(self) -> str:
        """The same under glibc."""
        return next((run.output for run in reversed(self.there) if run.output), "")


@dataclass(frozen=True, slots=True)
class ProgramAnswer:
    """What one suite said of a library. `remedy`: why it did not run, and what helps; "" if it ran.

    `tests`: in the suite; `seen`: those that ran at least once; `rounds`: through all of them; `now`: runs of this command.
    """

    suite: Suite
    version: str = ""
    tests: int = 0
    seen: int = 0
    rounds: int = 0
    now: int = 0
    cases: int = 0
    served: int = 0
    failing: int = 0  # tests that do not pass under glibc
    elsewhere: tuple[str, ...] = ()
    differences: tuple[Compared, ...] = ()
    once: tuple[Compared, ...] = ()
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class SoakAnswer:
    """What all suites said of one library."""

    name: str
    seconds: float
    programs: tuple[ProgramAnswer, ...]
    complete: bool = True

    @property
    def differences(self) -> int:
        return sum(len(program.differences) for program in self.programs)

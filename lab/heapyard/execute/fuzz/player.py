# SPDX-License-Identifier: Apache-2.0
"""One run of the native program under a library: all was legal, or what was not."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from ...catalog.end_with_parent import killed_with_parent
from ...model import places
from ...model.allocator import Allocator
from ...model.damage import DAMAGE, object_of
from ...model.errors import EXIT_USAGE, SetupError, UsageError
from ...model.fuzz import Operation, Round, Violation, parse_operations
from ..bounded_process import end_session, output_within

PROGRAM = "fuzz_heap"
LAST_WORDS = 5.0  # seconds that a process has to say where it hangs
FIRST = 45.0  # seconds that any run may take; a child that hangs tells after 30
AGAIN = 5.0  # seconds that a run may take when it is no hang that is looked for
PER_OPERATION = 20e-6  # seconds more for each; a slow heap takes a fifth


class Player:
    """Runs the native program under one library."""

    def __init__(self, allocator: Allocator, stop: threading.Event):
        self._program = places.native(PROGRAM)
        if not self._program.exists():
            raise SetupError(f"the native part {self._program} is missing", remedy=places.repair())
        self._env = {**os.environ, **allocator.env}  # with what the library reads of the user's
        self._env.pop("LD_PRELOAD", None)
        if allocator.library:
            self._env["LD_PRELOAD"] = str(allocator.library)
        self._stop = stop

    def play(self, round_: Round) -> tuple[int, Violation | None]:
        """How many operations were played, and what was found. KeyboardInterrupt when it is to stop."""
        return self._run(round_.words, round_.operations)

    def replay(self, file: Path, round_: Round, operations: int, first: float = FIRST) -> Violation | None:
        """The operations of a file, as in this round. `first`: seconds that any run may take."""
        return self._run(["--replay", str(file), *round_.ways], operations, first)[1]

    def operations_of(self, round_: Round) -> tuple[Operation, ...]:
        """All that the round plays, in its order by turns. O(operations)."""
        env = {"PATH": "/usr/bin:/bin"}
        done = subprocess.run([self._program, *round_.words, "--print"], env=env, capture_output=True, text=True, check=True)
        return parse_operations(done.stdout.splitlines(), PROGRAM)

    def child_of(self, operation: Operation) -> list[Operation]:
        """What the child of a fork plays."""
        calls = operation.size if operation.call == "fork" else 400
        threads = operation.thread + 1
        words = ["--seed", str(operation.other), "--threads", str(threads), "--operations", str(calls * threads)]
        done = subprocess.run([self._program, *words, "--no-forks", "--no-ends", "--print"], env={"PATH": "/usr/bin:/bin"},
                              capture_output=True, text=True, check=True)
        return [op for op in parse_operations(done.stdout.splitlines(), PROGRAM) if op.thread == operation.thread]

    def _run(self, words: Sequence[str], operations: int, first: float = FIRST) -> tuple[int, Violation | None]:
        process = subprocess.Popen(
            [self._program, *words], env=self._env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, preexec_fn=killed_with_parent,
        )
        limit = first + PER_OPERATION * operations
        try:
            written = output_within(process, limit, self._stop)
            if written is None:
                process.send_signal(signal.SIGTERM)
                written = output_within(process, LAST_WORDS, self._stop) or (b"", b"")
                return operations, _told(written[0]) or Violation("hang", f"no end after {limit:.0f} s")
        finally:
            end_session(process)
        return operations, _violation(*written, process.returncode)


def _told(out: bytes) -> Violation | None:
    """What the native program says that it found."""
    for line in reversed(out.decode(errors="replace").splitlines()):
        try:
            return Violation.of(object_of(line))
        except DAMAGE:
            continue
    return None


def _violation(out: bytes, err: bytes, code: int) -> Violation | None:
    if code == 0:
        return None
    if told := _told(out):
        return told
    last = next((line.strip() for line in reversed(err.decode(errors="replace").splitlines()) if line.strip()), "")
    words = f": {''.join(c if c.isprintable() else ' ' for c in last[:160])}" if last else ""
    if code == EXIT_USAGE and last.startswith(f"{PROGRAM}: "):
        raise UsageError(last.removeprefix(f"{PROGRAM}: "))
    if code < 0:
        name = signal.Signals(-code).name if -code in signal.Signals._value2member_map_ else f"signal {-code}"
        return Violation("crash", f"dies of {name}{words}")
    return Violation("crash", f"ends with exit code {code}{words}")

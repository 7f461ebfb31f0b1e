# SPDX-License-Identifier: Apache-2.0
"""A throw-away Slurm as its user sees it: started, entered by a command, ended with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from ...catalog.end_with_parent import killed_with_parent
from ...model.errors import HeapyardError
from ..scratch import ScratchFolder
from .foreground import command_in_front
from .name_spaces import entering, permitted
from .plan import Differences, Plan, make_plan

FOLDER_VARIABLE = "HEAPYARD_FLEET_TRY"  # names the folder to whatever runs inside
_ENDING = 20.0  # seconds in which the keeper must have ended everything


class ThrowAwaySlurm:
    """A context manager: nodes take jobs inside, and everything has ended and is removed afterwards.

    `keep`: a folder to be made for configuration, state and logs, which stays. Where name spaces are not permitted, which
    `why_here` tells, or not wanted (`one_host`), all nodes share the host's name and network.
    """

    def __init__(self, count: int, differences: Differences, keep: Path | None = None, one_host: bool = False) -> None:
        self._options, self.why_here = (None, "") if one_host else permitted()
        self._scratch = None if keep else ScratchFolder()
        folder = keep.absolute() if keep else self._scratch.path if self._scratch else Path()
        try:
            self.plan: Plan = make_plan(folder, keep is None, self._options is not None, count, differences)
            if keep:
                keep.mkdir(parents=True)
        except BaseException:
            self._clean()
            raise
        self._keeper: subprocess.Popen[str] | None = None

    def __enter__(self) -> ThrowAwaySlurm:
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.plan.conf), FOLDER_VARIABLE: str(self.plan.folder), "PATH": os.environ["PATH"]}

    def run(self, words: Sequence[str], is_shell: bool) -> int:
        """The exit code of a command that runs inside; 128 and its number for a signal.

        Ctrl-C is the command's own affair, and its end is waited for; a second one ends everything. SIGTERM and SIGHUP are
        passed on to it. A shell is never ended by Ctrl-C.
        """
        if self._options is None:
            command = ["env", "--default-signal=INT", *(f"{name}={value}" for name, value in self.environment.items()), *words]
        else:
            command = [*entering(self._first(), self._options, Path.cwd(), self.environment), *words]
        process = subprocess.Popen(command, preexec_fn=_ends_with_us if self._options is None else _unmoved)
        with command_in_front(process, is_shell):
            code = process.wait()
        return 128 - code if code < 0 else code

    def _start(self) -> None:
        words = [sys.executable, "-I", "-m", f"{__package__}.keeper", str(self.plan.write())]
        with tempfile.TemporaryFile("w+") as errors:
            self._keeper = subprocess.Popen(
                ["unshare", *self._options, *words] if self._options else words, text=True, start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )
            assert self._keeper.stdout
            line = self._keeper.stdout.readline()
            if not line:
                self._keeper.wait()
                errors.seek(0)
                last = (errors.read().strip().splitlines() or ["it said nothing"])[-1]
                raise HeapyardError(f"no throw-away Slurm: {last}")
        told: dict[str, str | None] = json.loads(line)
        if "failed" in told:
            raise HeapyardError(f"no throw-away Slurm: {told['failed']}", remedy=told["remedy"])

    def _first(self) -> int:
        """The process that the name spaces belong to: unshare's only child."""
        assert self._keeper
        return int(Path(f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children").read_text())

    def _end(self) -> None:
        keeper = self._keeper
        if keeper and keeper.stdin and keeper.stdout:
            keeper.stdin.close()
            try:
                keeper.wait(_ENDING)
            except subprocess.TimeoutExpired:
                keeper.kill()  # and with unshare its child, and with that one the name space
                keeper.wait()
            keeper.stdout.close()
        self._clean()

    def _clean(self) -> None:
        if self._scratch:
            self._scratch.remove()


def _unmoved() -> None:
    """In the child: nsenter must outlive a Ctrl-C.

    It outlives us too, until the keeper has ended its command: a command whose parent is gone would wait, dead, for one that
    reaps it, and its name space with it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _ends_with_us() -> None:
    """In the child: env must outlive a Ctrl-C for a moment, and nothing of the command outlives us."""
    _unmoved()
    killed_with_parent()

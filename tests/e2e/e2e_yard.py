# SPDX-License-Identifier: Apache-2.0
"""Using Heapyard as a person does: its command line, with results and settings in a folder of the test."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from heapyard import store
from heapyard.model import places
from heapyard.model.errors import HeapyardError
from heapyard.model.experiment import CONTROL_SUFFIX
from heapyard.model.record import Record, TrialRecord

PATIENCE = 240  # seconds that any one command may take before the test gives up; nothing is concluded from it


def shim(name: str) -> Path:
    """A malloc library with one known fault, see tests/native/shims."""
    return _built(places.native(f"lib{name}.so"))


def program(name: str) -> Path:
    """A program with one known trait, see tests/native/programs."""
    return _built(places.native(name))


def _built(path: Path) -> Path:
    if not path.exists():
        pytest.fail(f"{path} is not built; ./heapyard test builds it, or: cmake --preset release -DHEAPYARD_TESTS=ON")
    return path


class Yard:
    """One user with a results folder, a catalog file and a state of mind of its own; all else is the machine's."""

    def __init__(self, folder: Path, root: Path):
        self.folder, self.root = folder, root
        self.results = folder / "results"
        self.config = folder / "config"
        self.env = {
            name: value for name, value in os.environ.items() if not name.startswith(("HEAPYARD_", "PYTEST_", "COV_"))
        }
        self.env |= {
            "HEAPYARD_ROOT": str(root),
            "HEAPYARD_STATE": str(places.state()),
            "HEAPYARD_RESULTS": str(self.results),
            "HEAPYARD_OFFLINE": "1",
            "HEAPYARD_LOCK": str(folder / "machine.lock"),
            "XDG_CONFIG_HOME": str(self.config),
            "PYTHONPATH": os.pathsep.join([str(root / "lab"), *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        self._started: list[subprocess.Popen[str]] = []

    def command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "heapyard", *map(str, arguments)]

    def run(self, *arguments: object, env: Mapping[str, str] = {}, **options: object) -> subprocess.CompletedProcess[str]:
        """Run to the end without a terminal."""
        return subprocess.run(
            self.command(*arguments),
            env={**self.env, **env},
            text=True,
            capture_output=True,
            timeout=PATIENCE,
            **{"stdin": subprocess.DEVNULL, "cwd": self.folder} | options,
        )

    def start(self, *arguments: object, env: Mapping[str, str] = {}) -> subprocess.Popen[str]:
        """Start in a session of its own; ended with the test if it still runs."""
        process = subprocess.Popen(
            self.command(*arguments),
            env={**self.env, **env},
            cwd=self.folder,
            text=True,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._started.append(process)
        return process

    def compare(
        self,
        *command: object,
        own: dict[str, Path] | None = None,
        blocks: int = 4,
        options: Sequence[object] = (),
        **more: object,
    ) -> subprocess.CompletedProcess[str]:
        """`heapyard compare` of a command under glibc and libraries of the user's own, by default a sound one."""
        return self.run(*self.comparison(*command, own=own, blocks=blocks, options=options), **more)

    def comparison(
        self, *command: object, own: dict[str, Path] | None = None, blocks: int = 4, options: Sequence[object] = ()
    ) -> list[object]:
        """Its arguments. Few blocks without a pilot: these tests ask whether a result is right, not how narrow."""
        own = {"plain": shim("plain")} if own is None else own
        libraries = [word for name, path in own.items() for word in ("--allocator", f"{name}={path}")]
        return [
            "compare",
            "--allocators",
            ",".join(["glibc", *own]),
            *libraries,
            "--blocks",
            blocks,
            "--seed",
            1,
            "--no-html",  # has tests of its own, and costs seconds
            *options,
            "--",
            *command,
        ]

    def record(self) -> Record:
        """The newest experiment of this user."""
        return store.latest(self.results)

    def trials(self) -> list[TrialRecord]:
        """Of the newest experiment those that ended well so far; none before there is an experiment."""
        try:
            return [t for t in self.record().trials if t.status == "ok"]
        except HeapyardError:  # not there yet, or half created
            return []

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


# --- asking a record


def counted(record: Record, treatment: str) -> list[TrialRecord]:
    return [t for t in record.trials if t.counted and t.treatment == treatment]


def values(record: Record, treatment: str, metric: str) -> list[float]:
    """Of the counted trials, in the order of their blocks; with slices, of those that tell the metric."""
    sliced = any("slices" in t.metrics for t in record.trials)
    those = sorted(counted(record, treatment), key=lambda t: t.block)
    return [t.metrics[metric] for t in those if metric in t.metrics or not sliced]


def ratio_interval(record: Record, treatment: str, metric: str, *, confidence: float = 0.999) -> tuple[float, float]:
    """Interval of the ratio to the baseline, paired by block. At 99.9 % a right answer lies outside once in 1000."""
    from scipy.stats import ttest_rel

    baseline = record.experiment.settings.baseline
    ours, theirs = ([math.log(v) for v in values(record, label, metric)] for label in (treatment, baseline))
    interval = ttest_rel(ours, theirs).confidence_interval(confidence)
    return math.exp(interval.low), math.exp(interval.high)


def control(record: Record) -> str:
    return record.experiment.settings.baseline + CONTROL_SUFFIX


def failures(record: Record) -> dict[str, tuple[str, str]]:
    """Kind and reason of failure by treatment."""
    return {f.treatment: (f.kind, f.reason) for f in record.observations.failures}


def one_sentence(process: subprocess.CompletedProcess[str]) -> str:
    """What a refused command said: one sentence, at most one remedy, no traceback."""
    lines = [line for line in process.stderr.splitlines() if line.strip()]
    assert "Traceback" not in process.stderr
    assert (
        lines and lines[-1 if len(lines) == 1 else -2].startswith("heapyard: ") or lines[-1].startswith("heapyard: ")
    ), process.stderr
    return " ".join(lines)


def wait_until(true: Callable[[], bool], *, of: subprocess.Popen[str] | None = None, patience: float = PATIENCE) -> None:
    """Until `true()` holds. A test that waits in vain fails, as does one whose command `of` the yard ended before that."""
    end = time.monotonic() + patience
    while not true():
        if of is not None and of.poll() is not None and not true():
            pytest.fail(f"the command ended with {of.returncode} before that: {of.communicate()}")
        if time.monotonic() > end:
            calls = [] if of is None else [task.read_text() for task in Path(f"/proc/{of.pid}/task").glob("*/wchan")]
            pytest.fail(f"waited in vain; the command's threads wait in {calls}")
        time.sleep(0.02)

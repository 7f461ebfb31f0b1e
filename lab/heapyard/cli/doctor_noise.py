# SPDX-License-Identifier: Apache-2.0
"""How noisy this machine is: one small workload against itself, in blocks, exactly as an experiment would run it."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from ..design.blocks import make_blocks
from ..execute.experiment import Launch
from ..execute.scratch import ScratchFolder
from ..model.allocator import Allocator
from ..model.errors import HeapyardError
from ..model.experiment import CONTROL_SUFFIX, Block, Settings, Treatment
from ..model.metrics import PRIMARY_MEMORY, PRIMARY_TIME
from ..model.program import Program

LEAST_BLOCKS = 3  # fewer tell nothing of the noise
CONFIDENCE = 0.95
HELD = 64 << 20  # bytes, more than the workload holds

# About 0.4 s of small and middling blocks, kept in changing numbers; its answer is checked like any other.
_SCRIPT = """
kept = {}
for i in range(600_000):
    kept[i * 7919 % 20_011] = [str(i), bytes(i % 701)]
print(sum(len(name) + len(block) for name, block in kept.values()))
"""
WORKLOAD = Program(
    name="doctor",
    title="Python making strings and lists",
    command=(sys.executable, "-I", "-S", "-c", _SCRIPT),
    env={"PYTHONMALLOC": "malloc"},
)


@dataclass(frozen=True, slots=True)
class Spread:
    """Coefficient of variation of one trial beyond its block, with its 95 % interval."""

    cv: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Noise:
    """What an A/A run of `blocks` blocks showed. `disturbed`: further blocks that a guard threw out."""

    blocks: int
    disturbed: int
    reasons: tuple[str, ...]
    trial_seconds: float  # median wall time of the workload
    overhead_seconds: float  # median time the lab adds to a trial
    time: Spread
    memory: Spread


def measure_noise(
    allocator: Allocator,
    seconds: float,
    launch: Launch,
    *,
    seed: int = 0,
    stop: threading.Event | None = None,
    progress: Callable[[float], None] = lambda share: None,
    make_ready: Callable[[float], None] | None = None,
) -> Noise:
    """Run blocks of the workload against itself under `allocator` for about `seconds`, at least three.

    `progress` is told the share done between trials, `make_ready` before each how much it may touch.

    HeapyardError when a trial fails or `stop` is set.
    """
    baseline = Treatment(allocator.name, allocator)
    control = Treatment(allocator.name + CONTROL_SUFFIX, allocator, role="control")
    run = _Run(
        {t.label: t for t in (baseline, control)},
        Settings(baseline=allocator.name, seed=seed),
        launch,
        stop,
        progress,
        seconds,
        make_ready or (lambda size: None),
    )
    run.trial(baseline.label, pad=0)  # fills the file cache; not counted
    rows: list[dict[str, dict[str, float]]] = []
    disturbed: list[dict[str, dict[str, float]]] = []
    reasons: dict[str, None] = {}
    while len(rows) + len(disturbed) < LEAST_BLOCKS or run.has_time():
        number = len(rows) + len(disturbed)
        block = make_blocks(
            [WORKLOAD.name],
            list(run.treatments),
            range(number, number + 1),
            seed=seed,
            stage="main",
            first_index=number,
        )[0]
        values, tripped = run.block(block)
        (disturbed if tripped else rows).append(values)
        reasons.update(dict.fromkeys(tripped))
    counted = rows if len(rows) >= LEAST_BLOCKS else rows + disturbed
    return Noise(
        len(counted),
        len(disturbed),
        tuple(reasons),
        median(run.walls),
        median(run.overheads),
        _spread(counted, PRIMARY_TIME),
        _spread(counted, PRIMARY_MEMORY),
    )


class _Run:
    def __init__(
        self,
        treatments: dict[str, Treatment],
        settings: Settings,
        launch: Launch,
        stop: threading.Event | None,
        progress: Callable[[float], None],
        seconds: float,
        make_ready: Callable[[float], None],
    ):
        self.make_ready = make_ready
        self.treatments, self.settings, self.launch = treatments, settings, launch
        self.stop, self.progress, self.seconds = stop or threading.Event(), progress, seconds
        self.begin = time.monotonic()
        self.walls: list[float] = []
        self.overheads: list[float] = []

    def has_time(self) -> bool:
        """Is there time for another block of usual length?"""
        usual = len(self.treatments) * (median(self.walls) + median(self.overheads))
        return time.monotonic() - self.begin + usual <= self.seconds

    def block(self, block: Block) -> tuple[dict[str, dict[str, float]], tuple[str, ...]]:
        """(metrics by label, guards that tripped)."""
        outcomes = {label: self.trial(label, pad) for label, pad in zip(block.order, block.pads, strict=True)}
        return (
            {label: metrics for label, (metrics, _) in outcomes.items()},
            tuple(guard for _, tripped in outcomes.values() for guard in tripped),
        )

    def trial(self, label: str, pad: int) -> tuple[dict[str, float], tuple[str, ...]]:
        if self.stop.is_set():
            raise KeyboardInterrupt
        begin = time.monotonic()
        self.make_ready(HELD)
        with ScratchFolder() as folder:
            outcome = self.launch(
                WORKLOAD, self.treatments[label], self.settings, pad=pad, folder=folder, stop=self.stop
            )
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
        if outcome.status != "ok":
            raise HeapyardError(f"the noise cannot be measured: {outcome.reason}")
        self.walls.append(outcome.metrics[PRIMARY_TIME])
        self.overheads.append(time.monotonic() - begin - outcome.metrics[PRIMARY_TIME])
        self.progress(min(1.0, (time.monotonic() - self.begin) / self.seconds))
        return outcome.metrics, outcome.tripped


def _spread(rows: list[dict[str, dict[str, float]]], metric: str) -> Spread:
    """From the mean square of ln y = treatment + block + error, which follows a chi-squared law."""
    from scipy.special import chdtri

    from ..stats.block_model import cv_of, fit

    model = fit([[math.log(row[label][metric]) for label in sorted(row)] for row in rows])
    tail = (1 - CONFIDENCE) / 2
    low, high = (model.ss_error / float(chdtri(model.df, p)) for p in (tail, 1 - tail))
    return Spread(model.residual_cv, cv_of(low), cv_of(high))

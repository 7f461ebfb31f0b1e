# SPDX-License-Identifier: Apache-2.0
"""What blocks of an earlier experiment took, and blocks of a plan drawn from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from ..model.experiment import Block
from ..model.record import TrialRecord
from .fleet_schedule import Piece

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

WARM_UP = "warmup"


@dataclass(frozen=True)
class TrialTimes:
    """Measured seconds: by workload, `labels`, and a row per block with each trial's share of the block's span.

    The span runs from the block's first launch to its last end, so shares hold what the lab does between trials, and trials
    that ran by turns share the time they took together. NaN: the treatment was not launched in that block.
    """

    labels: dict[str, list[str]]
    blocks: dict[str, NDArray]
    warm_ups: dict[str, float]
    repeated: float  # share of attempts that a guard, or an interruption, had repeated
    job_start: float | None  # median seconds that a node was idle between two blocks; None without a fleet


def trial_times(trials: Sequence[TrialRecord], baseline: str) -> TrialTimes:
    """The times of an experiment. Only complete blocks tell durations. O(trials log trials)."""
    import numpy as np

    spans: dict[str, list[dict[str, float]]] = defaultdict(list)
    warm_ups: dict[str, float] = {}
    attempts = 0
    slots, by_node = set(), defaultdict(list)
    for block in _blocks(trials):
        first, begin, end = block[0], min(t.started for t in block), max(t.ended for t in block)
        if first.stage == WARM_UP:
            warm_ups[first.workload] = end - begin
            continue
        attempts += 1
        slots.add((first.stage, first.workload, first.round))
        if first.node:
            by_node[first.node].append((begin, end, first.stage))
        if any(t.counted for t in block):
            took = {t.treatment: t.ended - t.started for t in block}
            in_trials = sum(took.values())
            stretch = (end - begin) / in_trials if in_trials > 0 else 1.0
            spans[first.workload].append({label: seconds * stretch for label, seconds in took.items()})
    labels = {w: sorted({label for row in rows for label in row} | {baseline}) for w, rows in spans.items()}
    return TrialTimes(
        labels,
        {w: np.array([[row.get(label, np.nan) for label in labels[w]] for row in rows]) for w, rows in spans.items()},
        warm_ups,
        (attempts - len(slots)) / attempts if attempts else 0.0,
        _idle(by_node.values()),
    )


def _blocks(trials: Iterable[TrialRecord]) -> Iterable[list[TrialRecord]]:
    """Trials that ended, by block."""
    by_block: dict[int, list[TrialRecord]] = defaultdict(list)
    for trial in trials:
        if trial.status in ("ok", "failed"):
            by_block[trial.block].append(trial)
    return by_block.values()


def _idle(nodes: Iterable[list[tuple[float, float, str]]]) -> float | None:
    """Between two blocks that a node ran one after another in the same stage: what a job costs beside its block."""
    gaps = []
    for ran in nodes:
        ran.sort()
        gaps += [after[0] - before[1] for before, after in zip(ran, ran[1:], strict=False) if before[2] == after[2]]
    return max(median(gaps), 0.0) if gaps else None


def draw_pieces(
    blocks: Sequence[Block], times: TrialTimes, baseline: str, random: Generator, *, attempts: int = 20
) -> list[Piece]:
    """One possible course of a stage: every block takes what some measured block of its workload took.

    Measured blocks are resampled first, so that few of them give a wide spread. A treatment that was not measured takes as long as
    the baseline did. An attempt trips a guard as often as measured, after any of its trials alike; at most `attempts` times.
    KeyError for a workload that was not measured. O(trials).
    """
    import numpy as np

    pools = {w: rows[random.integers(len(rows), size=len(rows))] for w, rows in times.blocks.items()}
    pieces = []
    for block in blocks:
        if block.stage == WARM_UP and block.workload in times.warm_ups:
            pieces.append(Piece(block.round, times.warm_ups[block.workload]))
            continue
        pool, labels = pools[block.workload], times.labels[block.workload]
        row = pool[random.integers(len(pool))]
        shares = []
        for label in block.order:
            place = labels.index(label if label in labels else baseline)
            seconds = row[place]
            if np.isnan(seconds):
                measured = times.blocks[block.workload][:, place]
                seconds = random.choice(measured[~np.isnan(measured)])
            shares.append(float(seconds))
        cuts: list[float] = []
        while block.stage != WARM_UP and len(cuts) < attempts and random.random() < times.repeated:
            cuts.append(sum(shares[: 1 + int(random.integers(len(shares)))]))
        pieces.append(Piece(block.round, sum(shares), tuple(cuts)))
    return pieces

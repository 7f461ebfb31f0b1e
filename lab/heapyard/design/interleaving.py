# SPDX-License-Identifier: Apache-2.0
"""How the trials of a block share the machine, and which blocks say what: whole trials of memory, slices of time.

In slices (execute/slices.py) a slow change of the machine's speed affects all trials of a block alike. But real time goes
on while a program stands still. An allocator that gives memory back after so many milliseconds then gives it back sooner,
in the program's own time. So some blocks run whole trials, one after another. Memory comes from these, and so do the times
of programs that ran alone.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from ..model.metrics import ALONE, SLICES, TIMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..model.experiment import Settings

_WHOLE_EVERY = 6  # after the pilot: one block in so many runs whole trials

SHORTEST, LONGEST = 0.005, 0.05  # seconds of a slice
COLD_SHARE = 0.1  # of CPU time, that cold caches at the beginning of slices may add; docs/measured/slices.md has what that bends


class Timed(NamedTuple):
    """A trial that ended well. `wall`: seconds; `round`: number of the block among those of its program, from 0."""

    stage: str
    round: int
    block: int
    treatment: str
    sliced: bool
    wall: float


def is_whole(number: int, pilot: int) -> bool:
    """Does round `number` run whole trials where slices lead? The first third of the pilot's rounds do, two at least."""
    if number < pilot:
        return number < min(max(pilot // 3, 2), pilot - 1)
    return (number - pilot) % _WHOLE_EVERY == _WHOLE_EVERY - 1


def rounds_for(sliced: int, pilot: int) -> int:
    """Rounds after which so many of them ran in slices. O(rounds)."""
    number = 0
    while sliced > 0:
        sliced -= not is_whole(number, pilot)
        number += 1
    return number


def slice_length(cost: float) -> float:
    """Seconds of a slice. `cost`: CPU time in slices of SHORTEST over CPU time alone.

    What a slice begins with costs about the same however long it is, so the share that it adds falls with the length.
    """
    return min(LONGEST, max(SHORTEST, round(SHORTEST * (cost - 1) / COLD_SHARE, 3)))


def slices_lead(settings: Settings, timed: Mapping[str, Iterable[Timed]]) -> dict[str, bool]:
    """By program: are its times taken in slices? `timed`: its trials so far.

    In mode "auto": where they are the more precise for the machine's time. With the noise of a trial that is left within
    n blocks of the pilot as variance v, and the mean wall time as cost c, slices gain where g = (v c / n) in slices over
    (v c / n) of whole trials is below 1: rounds that are measured already count. Few rounds know v badly. Two whole ones may
    fall into one quiet moment, and the machine's noise is common to all programs. So a program's own g counts half, and the
    geometric mean over the programs the other half. What was decided once stays so. O(trials).
    """
    rows = {program: list(trials) for program, trials in timed.items()}
    if settings.interleave != "auto":
        return {program: settings.interleave == "slices" and any(t.sliced for t in trials) for program, trials in rows.items()}
    telling = "pilot" if settings.blocks is None else "main"
    pilots = {program: [t for t in trials if t.stage == telling] for program, trials in rows.items()}
    known = {program: gain for program, pilot in pilots.items() if (gain := _log_gain(pilot)) is not None}
    common = mean(known.values()) if known else 0.0
    lead = {
        program: known[program] + common < 0 if program in known else any(t.sliced for t in pilot)
        for program, pilot in pilots.items()
    }
    return lead | _decided(rows, settings)


def _decided(rows: Mapping[str, Sequence[Timed]], settings: Settings) -> dict[str, bool]:
    """What the rounds after the pilot were, those left out that run whole in any case; only programs that have some."""
    if settings.blocks is not None:
        return {}
    later = {
        program: [t.sliced for t in trials if t.stage == "main" and not is_whole(t.round, settings.pilot_blocks)]
        for program, trials in rows.items()
    }
    return {program: any(sliced) for program, sliced in later.items() if sliced}


def _log_gain(pilot: Sequence[Timed]) -> float | None:
    """ln g of a program, see `slices_lead`; None with fewer than two complete rounds of either kind."""
    import numpy as np

    blocks: dict[bool, dict[int, dict[str, float]]] = {False: defaultdict(dict), True: defaultdict(dict)}
    for t in pilot:
        if t.wall > 0:
            blocks[t.sliced][t.block][t.treatment] = math.log(t.wall)
    widest: list[str] = max((list(row) for kind in blocks.values() for row in kind.values()), key=len, default=[])
    labels = sorted(widest)
    complete = ([row for row in blocks[kind].values() if row.keys() >= set(labels)] for kind in (False, True))
    whole, turns = (np.array([[row[label] for label in labels] for row in rows]) for rows in complete)
    if min(len(whole), len(turns), len(labels)) < 2:
        return None
    weights = [math.log(_noise(logs) / len(logs)) + float(logs.mean()) for logs in (turns, whole)]
    return weights[0] - weights[1]


def _noise(logs: NDArray) -> float:
    """Mean square of ln y = treatment + block + error."""
    blocks, labels = logs.shape
    centred = logs - logs.mean()
    residuals = centred - centred.mean(axis=0) - centred.mean(axis=1, keepdims=True)
    return float((residuals**2).sum()) / ((blocks - 1) * (labels - 1)) + 1e-12


def interpreted(metrics: Mapping[str, float], *, lead: bool) -> dict[str, float]:
    """What a trial says of a program whose times are taken in slices (`lead`) or from whole trials.

    Where slices lead, a sliced trial tells times only, and those of a whole one get names of their own (ALONE). Where
    whole trials lead, a sliced one says nothing.
    """
    sliced = SLICES in metrics
    if not lead:
        return {} if sliced else dict(metrics)
    if sliced:
        return {name: value for name, value in metrics.items() if name in TIMES or name == SLICES}
    return {name + ALONE if name in TIMES else name: value for name, value in metrics.items()}

# SPDX-License-Identifier: Apache-2.0
"""Every choice that a search measured, where it stood in time and memory when it was last measured, and the front of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...model.analysis import Interval
from ...model.metrics import metric_named
from ...model.tuning import Candidate, Choice, Phase, Space
from ..contrasts import interval_about
from ..pareto import dominates
from ..quantiles import t_quantile
from .responses import Response

# What one phase measured of an allocator: its choices, the default first, with their time and memory.
Measured = tuple[Phase, Sequence[Choice], tuple[Response, Response]]


def candidates(space: Space, phases: Sequence[Measured], *, confidence: float) -> tuple[Candidate, ...]:
    """In the order in which they were first tried, the default left out; those that failed are left out too.

    A ratio is that to the default in the same blocks, in the last phase that has the choice: phases are never pooled, since a
    choice that stays has been lucky before. The front is by point estimates; the default is on it where nothing beats it in
    both. O(phases x choices x blocks + choices^2).
    """
    found: dict[Choice, Candidate] = {}
    for phase, choices, responses in phases:
        for column, choice in enumerate(choices):
            both = [_ratio(response, column, confidence) for response in responses]
            if choice != space.default and both[0] is not None and both[1] is not None:
                blocks = int(np.isfinite(responses[0].logs[:, [0, column]]).all(axis=1).sum())
                found[choice] = Candidate(choice, phase, blocks, both[0], both[1], False)
    places = {space.default: (1.0, 1.0)} | {choice: _costs(one, phases[0][2]) for choice, one in found.items()}
    return tuple(
        replace(one, on_front=not any(dominates(other, places[choice]) for other in places.values()))
        for choice, one in found.items()
    )


def _ratio(response: Response, column: int, confidence: float) -> Interval | None:
    """To the first column, within blocks, with its own interval; unbounded from one block, None from none."""
    apart = response.logs[:, column] - response.logs[:, 0]
    apart = apart[np.isfinite(apart)]
    if not len(apart):
        return None
    middle = float(apart.mean()) * _sign(response)
    if len(apart) == 1:
        return interval_about(middle, 1.0, math.inf)
    error = float(apart.std(ddof=1)) / math.sqrt(len(apart))
    return interval_about(middle, t_quantile((1 + confidence) / 2, len(apart) - 1), error)


def _sign(response: Response) -> float:
    """Responses are so turned that lower is better; ratios are told as they were measured."""
    return -1.0 if metric_named(response.metric).direction == "higher" else 1.0


def _costs(one: Candidate, responses: tuple[Response, Response]) -> tuple[float, float]:
    """Where it lies on axes of which less is better."""
    return one.time.ratio ** _sign(responses[0]), one.memory.ratio ** _sign(responses[1])

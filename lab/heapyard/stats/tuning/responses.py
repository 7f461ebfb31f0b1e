# SPDX-License-Identifier: Apache-2.0
"""Time and memory of the choices of one allocator, as arrays that a search can work with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.metrics import metric_named
from ...model.observations import Observations


@dataclass(frozen=True, slots=True)
class Response:
    """`logs`: ln of the response, blocks x choices, so turned that lower is better; NaN where a choice took no part."""

    metric: str
    logs: NDArray[np.float64]


def responses_of(observations: Observations, labels: Sequence[str]) -> tuple[Response, Response]:
    """Time and memory of these treatments. A treatment that failed once counts as not measured. O(rows)."""
    failed = {failure.treatment for failure in observations.failures if failure.failed}
    place = {label: column for column, label in enumerate(labels) if label not in failed}
    settings = observations.settings

    def of(metric: str) -> Response:
        return _response(observations, metric, place, len(labels))

    return of(settings.time_metric), of(settings.memory_metric)


def _response(observations: Observations, metric: str, place: dict[str, int], columns: int) -> Response:
    rows = [row for row in observations.rows if row.metric == metric and row.treatment in place and row.value > 0]
    numbers = {block: line for line, block in enumerate(sorted({row.block for row in rows}))}
    logs = np.full((len(numbers), columns), math.nan)
    sign = -1.0 if metric_named(metric).direction == "higher" else 1.0
    for row in rows:
        if math.isfinite(row.value):
            logs[numbers[row.block], place[row.treatment]] = sign * math.log(row.value)
    return Response(metric, logs)

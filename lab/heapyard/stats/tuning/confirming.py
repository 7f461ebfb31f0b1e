# SPDX-License-Identifier: Apache-2.0
"""The confirmation: what is claimed of an allocator's settings, from blocks that the search never saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...model.analysis import Analysis
from ...model.observations import Observations
from ...model.tuning import Choice, Space
from ..analyse import analyse

RESPONSES = 2  # time and memory


def confirm(observations: Observations, space: Space, choices: Sequence[Choice], *, allocators: int) -> Analysis:
    """The finalists of one allocator against its default (the first choice).

    The level is shared among allocators and responses (Bonferroni), and among finalists as in any comparison. So of a program
    that no setting changes, one search in twenty at most claims a gain. O(rows).
    """
    labels = tuple(map(space.label, choices))
    settings = observations.settings
    strict = 1 - (1 - settings.confidence) / (RESPONSES * allocators)
    own = replace(
        observations,
        treatments=labels,
        baseline=labels[0],
        control=observations.control if observations.baseline == labels[0] else "",
        rows=tuple(row for row in observations.rows if row.treatment in labels or row.treatment == observations.control),
        failures=tuple(failure for failure in observations.failures if failure.treatment in labels),
        settings=replace(settings, baseline=labels[0], confidence=strict),
    )
    return analyse(own)

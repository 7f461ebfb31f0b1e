# SPDX-License-Identifier: Apache-2.0
"""The split-plot analysis of variance of one workload: blocks are whole plots, each on one machine; allocators are subplots.

Machines differ as much as blocks within a machine do, so that is what their means are tested against. Machine x allocator is
tested against what is left within blocks (Montgomery, Design and Analysis of Experiments, "The split-plot design").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..factorial import Source, source_of
from .group_means import Array, Groups


@dataclass(frozen=True, slots=True)
class SplitPlot:
    """The rows of the table; degrees of freedom of the two errors."""

    machine: Source
    interaction: Source
    block_df: int
    error_df: int
    mean_square: float  # of the error within blocks; NaN without degrees of freedom


def split_plot(y: Array, groups: Groups) -> SplitPlot:
    """`y`: logs, blocks x allocators; `groups`: the machine of each block, 0, 1, ... O(blocks x allocators)."""
    blocks, allocators = y.shape
    size = np.bincount(groups)
    count = len(size)
    means = y.mean(axis=1)
    means = means - means.mean()
    of_machine = np.bincount(groups, means) / size
    within = y - y.mean(axis=1, keepdims=True)
    within = within - within.mean(axis=0)
    cells = np.array([within[groups == g].mean(axis=0) for g in range(count)])
    left = within - cells[groups]
    block_df, error_df = blocks - count, (blocks - count) * (allocators - 1)
    between, error = _rounded(allocators * _square(means - of_machine[groups]), y), _rounded(_square(left), y)
    return SplitPlot(
        source_of(("machine",), count - 1, allocators * float((size * of_machine**2).sum()), between, block_df, blocks),
        source_of(
            ("machine", "allocator"), (count - 1) * (allocators - 1), float((size[:, None] * cells**2).sum()), error,
            error_df, y.size,
        ),
        block_df,
        error_df,
        error / error_df if error_df else math.nan,
    )  # fmt: skip


def _square(values: Array) -> float:
    return float((values**2).sum())


def _rounded(square: float, y: Array) -> float:
    """Nought where equal measurements leave nothing but rounding."""
    unit = 32 * np.finfo(float).eps * float(np.abs(y).max(initial=0.0))
    return 0.0 if math.sqrt(square / max(1, y.size)) < unit else square

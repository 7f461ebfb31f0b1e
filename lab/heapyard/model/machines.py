# SPDX-License-Identifier: Apache-2.0
"""What an experiment on several machines found about them: their kinds, their speeds, and whether ratios depend on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Literal

from .analysis import Interval, Overall

Dependence = Literal["depends", "alike", "cannot tell"]


@dataclass(frozen=True, slots=True)
class MachineKind:
    """Machines that are analysed as one: their facts are equal, and their ratios are not shown to differ.

    `name`: of the first node, with how many others (`node1 +2`). `differs`: facts, in words, that the largest kind has
    otherwise; `facts`: all of them. `split`: a machine whose ratios are shown to differ from those of machines with the same
    facts. `overall`: of the leading metrics, from the blocks of this kind alone, over the workloads that all kinds have; its
    intervals and verdicts are corrected for the number of allocators, not for that of kinds.
    """

    name: str
    nodes: tuple[str, ...]
    differs: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    blocks: int  # complete ones, of all workloads
    overall: tuple[Overall, ...] = ()
    split: bool = False

    def over_all(self, metric: str) -> Overall | None:
        return next((o for o in self.overall if o.metric == metric), None)


@dataclass(frozen=True, slots=True)
class MachineInteraction:
    """Does the ratio of a treatment to the baseline depend on the machine? F test on differences within blocks.

    `workload` "": the mean over all workloads. `p_value`: Holm's, over the treatments (and the workloads, if it is of one).
    `groups`: the kinds of machine, or the single machines where all are of one kind; `ratios` in their order. `largest`: the
    ratio of the ratios of the two groups that are farthest apart, `high` over `low` (names), with an interval that holds for
    all pairs and treatments. `answer`: "depends" where the test rejects and `largest` is beyond the margin; "alike" where no
    two groups differ by more than it; else "cannot tell".
    """

    metric: str
    treatment: str
    workload: str
    groups: tuple[str, ...]
    f: float
    df: float
    error_df: float
    p_value: float
    ratios: tuple[float, ...]
    largest: Interval
    high: str
    low: str
    answer: Dependence
    method: str  # "F": machines scatter alike; "Welch": each has its own scatter


@dataclass(frozen=True, slots=True)
class MachineVariance:
    """The split-plot analysis of variance of one workload and metric: blocks are whole plots, and each lies on one machine.

    The machine is tested against the blocks within machines, machine x allocator against what is left within blocks.
    p-values are as they come, of one test each.
    """

    metric: str
    workload: str
    node_f: float
    node_df: int
    block_df: int
    node_p: float
    interaction_f: float
    interaction_df: int
    error_df: int
    interaction_p: float
    omega_squared: float  # partial, of the interaction
    residual_cv: float  # the noise of one trial beyond its block and its machine


@dataclass(frozen=True, slots=True)
class MachineSpeed:
    """One machine's block means in a metric, as a ratio to the geometric mean of all machines; it cancels in ratios of
    allocators. Means are over the baseline and the treatments whose ratio to it is not shown to depend on the machine. The
    interval holds for all machines together."""

    node: str
    metric: str
    interval: Interval


@dataclass(frozen=True, slots=True)
class Machines:
    """The machine as a factor. `workloads`: those that every kind has, which everything here speaks of.

    `too_few`: machines left out of the comparison of kinds, since they have fewer than two blocks of most workloads.
    """

    nodes: tuple[str, ...]
    kinds: tuple[MachineKind, ...]  # the one with most machines first
    workloads: tuple[str, ...] = ()
    interactions: tuple[MachineInteraction, ...] = ()
    variances: tuple[MachineVariance, ...] = ()
    speeds: tuple[MachineSpeed, ...] = ()
    too_few: tuple[str, ...] = ()

    def depends(self, metric: str) -> tuple[str, ...]:
        """Treatments whose mean ratio over all workloads is shown to depend on the kind of machine."""
        return tuple(i.treatment for i in self.interactions if i.metric == metric and not i.workload and i.answer == "depends")

    def depends_on_one_workload(self, metric: str) -> tuple[MachineInteraction, ...]:
        """Those of single workloads whose ratio is shown to depend on the kind of machine."""
        return tuple(i for i in self.interactions if i.metric == metric and i.workload and i.answer == "depends")

    def interaction(self, metric: str, treatment: str) -> MachineInteraction | None:
        found = (i for i in self.interactions if (i.metric, i.treatment, i.workload) == (metric, treatment, ""))
        return next(found, None)

    def noise(self, metric: str) -> float:
        """The noise of one trial beyond its block and its machine, over workloads (median); NaN with one machine."""
        found = [v.residual_cv for v in self.variances if v.metric == metric and not math.isnan(v.residual_cv)]
        return median(found) if found else math.nan

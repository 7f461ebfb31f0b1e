# SPDX-License-Identifier: Apache-2.0
"""What the statistics see: one row per counted trial and metric, in long form."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .claim import Claim
from .experiment import Settings
from .figure import Figure
from .leading import leading_memory


@dataclass(frozen=True, slots=True)
class Observation:
    """One response of one counted trial. `block` identifies the block; only complete blocks are analysed."""

    workload: str
    treatment: str
    block: int
    metric: str
    value: float
    trial: int = 0  # id in the store: every number can be traced
    position: int = 0  # place in the block's order
    started: float = 0.0  # seconds since the experiment began
    stage: str = "main"
    round: int = 0  # the how-manieth block of its workload: rounds run one after the other
    node: str = ""  # the machine of a fleet that ran it, "" for the lab's own


@dataclass(frozen=True, slots=True)
class Failure:
    """A treatment that could not be measured on a workload, or failed some of its trials."""

    workload: str
    treatment: str
    failed: int
    attempted: int
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Observations:
    """Everything an analysis needs; `treatments` in display order, `control` the label of the A/A control or "".

    `settings.memory_metric` is one that was measured: older experiments have peak RSS in the place of charged memory.
    """

    workloads: tuple[str, ...]
    treatments: tuple[str, ...]
    baseline: str
    control: str
    rows: tuple[Observation, ...]
    failures: tuple[Failure, ...] = ()
    settings: Settings = field(default_factory=Settings)
    levels: dict[str, dict[str, str]] = field(default_factory=dict)  # workload -> factor -> level
    figures: tuple[Figure, ...] = ()
    claims: tuple[Claim, ...] = ()
    processors: int = 0  # of the machine it ran on; 0 = not known
    machines: dict[str, dict[str, str]] = field(default_factory=dict)  # of a fleet, by name: what makes a machine's kind

    def __post_init__(self) -> None:
        leads = leading_memory(self.settings.memory_metric, {row.metric for row in self.rows})
        if leads != self.settings.memory_metric:
            object.__setattr__(self, "settings", replace(self.settings, memory_metric=leads))

    @property
    def on_a_fleet(self) -> bool:
        """Whether any block ran on another machine than the lab's own. O(rows), at most."""
        return any(row.node for row in self.rows)

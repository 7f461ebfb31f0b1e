# SPDX-License-Identifier: Apache-2.0
"""What an analysis found, ready to be shown. Made by stats, drawn by report; holds no arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from .claim import Judgement
from .figure import Figure, is_number
from .metrics import PRIMARY_MEMORY, PRIMARY_TIME
from .simulation import Simulated
from .observations import Failure
from .units import counted

if TYPE_CHECKING:
    from .machines import Machines

Verdict = Literal["better", "worse", "equivalent", "undecided"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio with its confidence interval; 1 means no difference, 0.97 means 3 % less than the baseline."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One treatment against the baseline on one workload and metric (or over all workloads: workload "")."""

    workload: str
    metric: str
    treatment: str
    blocks: int  # that the treatment took part in; over all workloads those that every one has
    interval: Interval  # paired by block, this pair alone, 95 %
    simultaneous: Interval  # Dunnett: all treatments against the baseline hold together
    p_value: float  # adjusted (Dunnett)
    verdict: Verdict  # by TOST against the margin and the simultaneous interval; direction already taken into account
    blocks_to_decide: int | None = None  # further blocks that would settle an undecided verdict


@dataclass(frozen=True, slots=True)
class Summary:
    """One treatment on one workload and metric: geometric mean in the metric's unit, spread, place among the best."""

    treatment: str
    mean: float
    cv: float  # coefficient of variation of single trials within the treatment
    trials: int
    letters: str  # compact letters of Tukey's HSD: treatments sharing a letter are not distinguishable
    among_best: bool  # not distinguishable from the best (Tukey HSD)


@dataclass(frozen=True, slots=True)
class Cell:
    """All treatments on one workload for one metric; blocks model ln y = treatment + block + error.

    Summaries and noise speak of the blocks in which everybody took part, comparisons of all that a treatment has.
    """

    workload: str
    metric: str
    blocks: int  # of the treatments that were not released before the end
    residual_df: int
    residual_cv: float  # sqrt(exp(s^2) - 1): the noise of one trial beyond its block
    summaries: tuple[Summary, ...]
    comparisons: tuple[Comparison, ...]  # against the baseline, control excluded
    control: Comparison | None  # the A/A control against the baseline
    half_width: float  # of the 95 % interval of one ratio with so many blocks, as ratio minus one
    method: str = "t"  # "t": pooled mean square; "moderated t": each pair its own, where scatter differs


@dataclass(frozen=True, slots=True)
class Duel:
    """Two treatments other than the baseline against each other, `treatment` as a ratio to `rival`; all such pairs together."""

    treatment: str
    rival: str
    simultaneous: Interval
    verdict: Verdict  # of `treatment`


@dataclass(frozen=True, slots=True)
class NextProgram:
    """What one further program of this kind may show under one treatment, as a ratio to the baseline.

    `interval`: prediction interval. `gains`, `loses`: chance that it gains or loses more than the margin. `may_gain`,
    `may_lose`: whether the interval reaches so far. `held`: of the programs, how many lay in the interval that the others gave.
    """

    treatment: str
    interval: Interval
    gains: float
    loses: float
    may_gain: bool
    may_lose: bool
    held: int


@dataclass(frozen=True, slots=True)
class Overall:
    """One metric over all workloads on which every treatment counted; these workloads are fixed, no sample of others."""

    metric: str
    workloads: tuple[str, ...]  # the common set the means run over
    comparisons: tuple[Comparison, ...]  # geometric mean ratios; `blocks_to_decide` counts rounds over all workloads
    among_best: tuple[str, ...]
    best: str
    control: Comparison | None = None  # the A/A control over the same workloads
    duels: tuple[Duel, ...] = ()  # treatments against each other
    next_program: tuple[NextProgram, ...] = ()  # empty with too few programs, and where workloads are levels of factors
    noisiest: str = ""  # the workload that brings most of the variance
    noisiest_share: float = 0.0

    def of(self, treatment: str) -> Comparison | None:
        return next((c for c in self.comparisons if c.treatment == treatment), None)


@dataclass(frozen=True, slots=True)
class LevelEffect:
    """One treatment at one level of a factor: mean ratio to the baseline over the workloads there.

    `simultaneous` holds for all treatments and levels together. `least`, `most`: ratios of the single workloads.
    """

    treatment: str
    level: str
    interval: Interval
    simultaneous: Interval
    verdict: Verdict
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class ByLevel:
    """How the effects on one metric depend on the factor that moves them most. Levels are fixed: none is a sample.

    `depends`: treatments whose effect is shown to differ between two levels by more than the margin.
    """

    metric: str
    factor: str
    levels: tuple[str, ...]
    effects: tuple[LevelEffect, ...]
    depends: tuple[str, ...]

    def of(self, treatment: str) -> tuple[LevelEffect, ...]:
        """In the order of the levels."""
        return tuple(e for e in self.effects if e.treatment == treatment)


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """Time and memory of one treatment together, over the common set, as ratios to the baseline."""

    treatment: str
    time: Interval
    memory: Interval
    on_front: bool


@dataclass(frozen=True, slots=True)
class ControlCheck:
    """Does the baseline differ from itself? `differs` lists (workload, metric) whose family-corrected interval excludes 1;
    the workload "" is the mean over all.

    `misleads`: those of them that are beyond the margin or as large as a difference that is claimed there. `noise` is the
    residual CV of wall time over workloads (median). `size`: differences of the mean over all workloads in the time metric
    up to this one (ratio minus one) deserve no belief: the copies differ by as much, or none as small could be shown. NaN if
    not known.
    """

    checked: int
    differs: tuple[tuple[str, str], ...]
    noise: float
    misleads: tuple[tuple[str, str], ...] = ()
    size: float = math.nan

    @property
    def clean(self) -> bool:
        return not self.differs

    @property
    def alarming(self) -> bool:
        return bool(self.misleads)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One treatment at one level: geometric mean with its 95 % interval in the metric's unit, or a ratio.

    `oversubscribed`: more threads ran than the machine has processors.
    """

    treatment: str
    level: str
    mean: Interval
    blocks: int
    workload: str
    oversubscribed: bool = False


@dataclass(frozen=True, slots=True)
class Curves:
    """A figure with its numbers, points in the order of treatments and levels."""

    figure: Figure
    levels: tuple[str, ...]
    points: tuple[CurvePoint, ...]

    @property
    def numeric(self) -> bool:
        """Whether every level is a number, so that the axis has a scale."""
        return all(is_number(level) for level in self.levels)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Trend:
    """How one treatment's response grows over the levels of a figure: which law of growth, how steep, and what then?"""

    figure: str  # its title
    metric: str
    over: str
    treatment: str
    answer: str  # the best law ("linear", "n log n", ...), or "cannot tell" with the `reason` in one sentence
    reason: str
    slope: Estimate  # of ln response over ln level
    weights: tuple[tuple[str, float], ...]  # of Akaike, best law first
    at: float  # twice the largest level measured
    expected: Estimate  # there, under the best law, with the interval of a new measurement; in the metric's unit


@dataclass(frozen=True, slots=True)
class Scaling:
    """Gunther's Universal Scalability Law of one treatment over threads; None with the `reason` where it cannot be fitted."""

    figure: str
    treatment: str
    reason: str
    one_thread: Estimate | None = None  # throughput
    contention: Estimate | None = None
    coherency: Estimate | None = None
    peak: float = 0.0  # threads of the largest throughput


@dataclass(frozen=True, slots=True)
class Ranked:
    """One treatment over all programs: mean rank (1 = best), and letters of signed-rank tests."""

    treatment: str
    rank: float
    letters: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranks over programs, which ask who is ahead, not by how much. `rows`: best first."""

    metric: str
    workloads: int
    p: float  # Friedman's hypothesis that no treatment differs (Iman and Davenport's F)
    critical_difference: float  # of mean ranks, by Nemenyi
    rows: tuple[Ranked, ...]


@dataclass(frozen=True, slots=True)
class AnovaRow:
    """One source of variation: a factor, an interaction ("allocator x threads"), or the blocks. Effects are partial."""

    source: str
    df: int
    sum_of_squares: float
    f: float
    p: float
    eta_squared: float
    omega_squared: float


@dataclass(frozen=True, slots=True)
class AnovaMean:
    """One treatment over all cells: geometric mean ratio to the baseline, letters of Tukey's HSD, mean rank (1 = least)."""

    treatment: str
    ratio: float
    letters: str
    average_rank: float


@dataclass(frozen=True, slots=True)
class OutlyingTrial:
    """A trial far from its model's value. `studentized`: by the error estimated without it; `p`: corrected for all."""

    trial: int
    studentized: float
    p: float


@dataclass(frozen=True, slots=True)
class Anova:
    """Analysis of variance of the log of one response over all factors of a study, blocks removed.

    `straightness`, `largest`, `drift`: of the residuals, see stats.residuals. `scatter_p`: of equal scatter under all
    allocators (Levene); `place_p`: that the place within a block does not matter (shuffles).
    """

    metric: str
    factors: tuple[str, ...]
    cells: int  # combinations of levels, treatments included
    rounds: int
    rows: tuple[AnovaRow, ...]
    error_df: int
    error_mean_square: float
    residual_cv: float
    means: tuple[AnovaMean, ...]  # least first
    straightness: float
    largest: float
    drift: float
    scatter_p: float
    place_p: float
    outliers: tuple[OutlyingTrial, ...]  # for looking at; none is left out


@dataclass(frozen=True, slots=True)
class Modes:
    """Two groups into which a treatment's trials fall: geometric means in the metric's unit, and how many trials in each.

    `p`: of the dip test, for this treatment. `others`: treatments that show two groups as well.
    """

    workload: str
    metric: str
    treatment: str
    low: float
    high: float
    in_low: int
    in_high: int
    p: float
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Analysis:
    """The answer to one experiment. `metrics` in display order; cells keyed by (workload, metric) order of appearance."""

    baseline: str
    treatments: tuple[str, ...]  # without the control
    metrics: tuple[str, ...]
    cells: tuple[Cell, ...]
    overall: tuple[Overall, ...]
    pareto: tuple[ParetoPoint, ...]
    control: ControlCheck
    failures: tuple[Failure, ...]
    curves: tuple[Curves, ...] = ()  # of the study's figures
    judgements: tuple[Judgement, ...] = ()  # of the study's claims
    anovas: tuple[Anova, ...] = ()  # of the two leading metrics, where a study crosses factors
    trends: tuple[Trend, ...] = ()  # of the study's figures over a numeric factor
    scalings: tuple[Scaling, ...] = ()  # of its figures of throughput over threads
    rankings: tuple[Ranking, ...] = ()  # of the two leading metrics, with enough workloads
    modes: tuple[Modes, ...] = ()  # of servers whose trials fall into two groups
    time: str = PRIMARY_TIME  # the two metrics that the verdict speaks of
    memory: str = PRIMARY_MEMORY
    by_level: tuple[ByLevel, ...] = ()  # of the two leading metrics, where factors tell workloads apart
    machines: Machines | None = None  # where blocks ran on the machines of a fleet
    round_seconds: float = 0.0  # how long one round of all workloads took; 0: not known
    margins: tuple[float, float] = (0.02, 0.05)  # of the two leading metrics, as ratio minus one
    workload_noun: str = "program"  # what a workload is called; "workload" for those of a mutator
    simulated: Simulated = field(default_factory=Simulated)  # the machine that all of this was simulated on
    notes: tuple[str, ...] = ()  # e.g. "budget used up: achieved half-width 1.8 %"

    def cell(self, workload: str, metric: str) -> Cell | None:
        return next((c for c in self.cells if c.workload == workload and c.metric == metric), None)

    def counted(self, number: int) -> str:
        """`1 program`, `3 workloads`."""
        return counted(number, self.workload_noun)

    def margin(self, metric: str) -> float:
        """The margin of equivalence of one of the two leading metrics."""
        return self.margins[metric != self.time]

    def level_effects(self, metric: str) -> ByLevel | None:
        return next((b for b in self.by_level if b.metric == metric), None)

    @property
    def primary(self) -> tuple[str, str]:
        return self.time, self.memory

    def over_all(self, metric: str) -> Overall | None:
        return next((o for o in self.overall if o.metric == metric), None)

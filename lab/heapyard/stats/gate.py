# SPDX-License-Identifier: Apache-2.0
"""A gate for pipelines: is a treatment worse than the baseline by more than a limit?

"Not shown to be worse" and "shown not to be worse" are different answers; a gate that takes the first for the second
passes every change that was measured badly enough.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from ..model.analysis import Analysis, Comparison, Interval
from ..model.machines import MachineInteraction, Machines
from ..model.metrics import metric_named
from .scale import sign_of

Answer = Literal["regression", "shown not worse", "not shown"]


@dataclass(frozen=True, slots=True)
class Gated:
    """One comparison held against the limit. `loss`: how much worse, as a ratio; above 1 is worse in any metric.

    `machines`: that the ratio is shown to depend on the machine, with the ratio on each kind; None where it is not.
    """

    comparison: Comparison
    loss: Interval
    simultaneous: Interval
    limit: float
    answer: Answer
    machines: MachineInteraction | None = None


def gate(analysis: Analysis, *, limit: float, metrics: Sequence[str], treatments: Collection[str] = ()) -> list[Gated]:
    """Every comparison of the metrics (and treatments, if any are named) on single workloads. O(cells x treatments).

    "regression": the interval that holds for all treatments together lies beyond 1 + `limit`. "shown not worse": the
    pair's own interval ends below it. "not shown": neither; more blocks may tell. A mean over machines shows nothing of
    one on which the ratio is another: where it is shown to depend on the machine, the worst kind's must be below the limit
    too. Metrics without a better direction are left out.
    """
    found = []
    for cell in analysis.cells:
        direction = sign_of(metric_named(cell.metric).direction)
        if cell.metric not in metrics or direction == 0:
            continue
        for one in cell.comparisons:
            if treatments and one.treatment not in treatments:
                continue
            loss, together = (_inverted(i) if direction > 0 else i for i in (one.interval, one.simultaneous))
            machines, answer = _dependence(analysis.machines, one), _answer(loss, together, limit)
            if machines is not None and answer == "shown not worse":
                worst = max(1 / ratio if direction > 0 else ratio for ratio in machines.ratios)
                answer = answer if worst < 1 + limit else "not shown"
            found.append(Gated(one, loss, together, limit, answer, machines))
    return found


def _dependence(machines: Machines | None, one: Comparison) -> MachineInteraction | None:
    """Of the ratio on its own workload; where that is the only one, of the mean over workloads, which is the same."""
    if machines is None:
        return None
    where = one.workload if len(machines.workloads) > 1 else ""
    return next(
        (
            i
            for i in machines.interactions
            if (i.metric, i.treatment, i.workload, i.answer) == (one.metric, one.treatment, where, "depends")
        ),
        None,
    )


def _answer(loss: Interval, together: Interval, limit: float) -> Answer:
    if min(loss.low, together.low) > 1 + limit:
        return "regression"
    return "shown not worse" if loss.high < 1 + limit else "not shown"


def _inverted(interval: Interval) -> Interval:
    low, high = interval.low, interval.high
    return Interval(1 / interval.ratio, 1 / high if high > 0 else float("inf"), 1 / low if low > 0 else float("inf"))

"""From observations to the answer of an experiment."""

from __future__ import annotations

from collections.abc import Callable

from ..model.analysis import Analysis, Overall, ParetoPoint
from ..model.metrics import PRIMARY_MEMORY, PRIMARY_TIME
from ..model.observations import Observations
from .cells import analyse_cell
from .control import check_control, number_of_checks
from .notes import notes_on
from .overall import common_set, overall_of
from .pareto import pareto
from .tables import Table, metric_order, tables


def analyse(observations: Observations) -> Analysis:
    """Everything a report says about an experiment; see docs/method.md for the meaning of each number.

    Pure and deterministic. Gives an answer for any input, however little was measured (one block: no interval is
    bounded; no complete block: no cell). O(rows + cells x blocks x treatments^2).
    """
    settings, baseline, control = observations.settings, observations.baseline, observations.control
    treatments = tuple(t for t in observations.treatments if t != control)
    made = tables(observations)
    checks = number_of_checks(made, control)
    cells = tuple(analyse_cell(t, baseline=baseline, control=control, settings=settings, checks=checks) for t in made)
    metrics = tuple(m for m in metric_order(observations) if any(t.metric == m for t in made))
    by_metric: dict[str, list[Table]] = {m: [t for t in made if t.metric == m] for m in metrics}
    common = {m: common_set(by_metric[m], treatments, baseline) for m in metrics}

    def over(metric: str, workloads: tuple[str, ...], kept: tuple[str, ...]) -> Overall | None:
        return overall_of(metric, by_metric[metric], cells, workloads, kept, baseline=baseline, settings=settings)

    overall = tuple(o for m in metrics if (o := over(m, *common[m])) is not None)
    return Analysis(
        baseline=baseline,
        treatments=treatments,
        metrics=metrics,
        cells=cells,
        overall=overall,
        pareto=_time_and_memory(common, over, treatments, baseline),
        control=check_control(cells, confidence=settings.confidence),
        failures=observations.failures,
        notes=notes_on(observations, made, cells, overall),
    )


def _time_and_memory(
    common: dict[str, tuple[tuple[str, ...], tuple[str, ...]]],
    over: Callable[[str, tuple[str, ...], tuple[str, ...]], Overall | None],
    treatments: tuple[str, ...],
    baseline: str,
) -> tuple[ParetoPoint, ...]:
    """Time and memory over one and the same set of workloads and treatments, where both were measured."""
    if PRIMARY_TIME not in common or PRIMARY_MEMORY not in common:
        return ()
    (time_set, timed), (memory_set, sized) = common[PRIMARY_TIME], common[PRIMARY_MEMORY]
    workloads = tuple(w for w in time_set if w in memory_set)
    kept = tuple(t for t in treatments if t in timed and t in sized)
    return pareto(over(PRIMARY_TIME, workloads, kept), over(PRIMARY_MEMORY, workloads, kept), kept, baseline)

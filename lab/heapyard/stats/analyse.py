# SPDX-License-Identifier: Apache-2.0
"""From observations to the answer of an experiment."""

from __future__ import annotations

from collections.abc import Callable

from ..model.analysis import Analysis, Overall, ParetoPoint
from ..model.metrics import metric_named
from ..model.observations import Observations
from .anova import anovas_of
from .by_level import by_level
from .cells import analyse_cell
from .claims.judge import judge_all
from .control import check_control, number_of_checks, within_machines
from .curves import curves_of
from .machines.found import machines_of
from .modes import modes_under_load
from .notes import notes_on
from .overall import common_set, overall_of
from .pace import round_seconds
from .pareto import pareto
from .rankings import ranking_of
from .scale import margin_of
from .tables import Table, metric_order, tables
from .trends import scalings_of, trends_of


def analyse(observations: Observations) -> Analysis:
    """Everything a report says about an experiment; see docs/method.md for the meaning of each number.

    Pure and deterministic. Gives an answer for any input, however little was measured (one block: no interval is
    bounded; no complete block: no cell). O(rows + cells x blocks x treatments^2).
    """
    settings, baseline, control = observations.settings, observations.baseline, observations.control
    primary = (settings.time_metric, settings.memory_metric)
    treatments = tuple(t for t in observations.treatments if t != control)
    made = tables(observations)
    checks = number_of_checks(made, control, primary)
    cells = tuple(analyse_cell(t, baseline=baseline, control=control, settings=settings, checks=checks) for t in made)
    metrics = tuple(m for m in metric_order(observations) if any(t.metric == m for t in made))
    by_metric: dict[str, list[Table]] = {m: [t for t in made if t.metric == m] for m in metrics}
    common = {m: common_set(by_metric[m], treatments, baseline) for m in metrics}
    programs = not any(len(levels) > 1 for levels in observations.levels.values())

    def over(metric: str, workloads: tuple[str, ...], kept: tuple[str, ...]) -> Overall | None:
        return overall_of(
            metric, by_metric[metric], workloads, kept, baseline=baseline, settings=settings, control=control,
            checks=checks, a_kind=programs and metric in primary,
        )  # fmt: skip

    whole = {m: o for m in metrics if (o := over(m, *common[m])) is not None}
    overall = tuple(whole.values())
    curves = curves_of(observations, made)
    leading = [m for m in primary if m in common]
    ranked = (ranking_of(m, by_metric[m], *common[m], settings=settings) for m in leading if programs)
    levels = (by_level(observations, m, by_metric[m], *common[m]) for m in leading if not programs)
    machines = machines_of(observations, by_metric, common, checks=checks)
    return Analysis(
        baseline=baseline,
        treatments=treatments,
        metrics=metrics,
        cells=cells,
        overall=overall,
        pareto=_time_and_memory(common, over, whole, treatments, baseline, *primary),
        control=within_machines(check_control(cells, overall, settings), machines, settings.time_metric),
        failures=observations.failures,
        curves=curves,
        judgements=judge_all(observations, made),
        anovas=anovas_of(observations),
        trends=trends_of(curves),
        scalings=scalings_of(curves, observations.processors),
        rankings=tuple(r for r in ranked if r is not None),
        modes=modes_under_load(made, baseline, control, settings),
        by_level=tuple(found for found in levels if found is not None),
        machines=machines,
        round_seconds=round_seconds(observations),
        margins=tuple(margin_of(metric_named(m), settings) for m in primary),  # type: ignore[arg-type]
        workload_noun="program" if programs else "workload",
        time=settings.time_metric,
        memory=settings.memory_metric,
        simulated=settings.simulated,
        notes=notes_on(observations, made, cells, overall, machines),
    )


def _time_and_memory(
    common: dict[str, tuple[tuple[str, ...], tuple[str, ...]]],
    over: Callable[[str, tuple[str, ...], tuple[str, ...]], Overall | None],
    whole: dict[str, Overall],
    treatments: tuple[str, ...],
    baseline: str,
    time: str,
    memory: str,
) -> tuple[ParetoPoint, ...]:
    """Time and memory over one and the same set of workloads and treatments, where both were measured."""
    if time not in common or memory not in common:
        return ()
    (time_set, with_time), (memory_set, with_memory) = common[time], common[memory]
    workloads = tuple(w for w in time_set if w in memory_set)
    kept = tuple(t for t in treatments if t in with_time and t in with_memory)
    timed, sized = (whole.get(m) if common[m] == (workloads, kept) else over(m, workloads, kept) for m in (time, memory))
    return pareto(timed, sized, kept, baseline)

# SPDX-License-Identifier: Apache-2.0
"""From stored trials to what the statistics see: which trials count, and what failed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..design.interleaving import Timed, interpreted, slices_lead
from ..model.experiment import Experiment, Settings
from ..model.machine_facts import Snapshot, facts_of
from ..model.metrics import PRIMARY_TIME, SLICES
from ..model.observations import Failure, Observation, Observations
from ..model.record import TrialRecord


def observations_of(
    experiment: Experiment, trials: Sequence[TrialRecord], processors: int = 0, nodes: Mapping[str, Snapshot] | None = None
) -> Observations:
    """Counted trials in long form, failures by workload and treatment. O(trials x metrics)."""
    control = next((t.label for t in experiment.treatments if t.role == "control"), "")
    treatments = tuple(t.label for t in experiment.treatments if t.role == "treatment")
    inherited = any(p.inherit_env for p in experiment.programs)
    rows = tuple(
        Observation(t.workload, t.treatment, t.block, metric, value, t.id, t.position, t.started, t.stage, t.round, t.node)
        for t in trials
        if t.counted
        for metric, value in t.metrics.items()
    )
    return Observations(
        workloads=tuple(p.name for p in experiment.programs),
        treatments=treatments,
        baseline=experiment.settings.baseline,
        control=control,
        rows=rows,
        failures=failures_of(trials),
        settings=experiment.settings,
        levels={p.name: {"program": p.name.split()[0] if p.mutator else p.name, **p.levels} for p in experiment.programs},
        figures=experiment.figures,
        claims=experiment.claims,
        processors=processors,
        machines={name: facts_of(snapshot, inherited=inherited) for name, snapshot in (nodes or {}).items()},
    )


def interpreted_trials(settings: Settings, trials: Sequence[TrialRecord]) -> tuple[TrialRecord, ...]:
    """The trials with what they say of their program, whether its times were taken in slices or not. O(trials x metrics)."""
    if not any(SLICES in t.metrics for t in trials):
        return tuple(trials)
    timed: dict[str, list[Timed]] = defaultdict(list)
    for t in trials:
        if t.status == "ok":
            wall = t.metrics.get(PRIMARY_TIME, 0.0)
            timed[t.workload].append(Timed(t.stage, t.round, t.block, t.treatment, SLICES in t.metrics, wall))
    leads = slices_lead(settings, timed)
    return tuple(
        replace(t, metrics=interpreted(t.metrics, lead=leads.get(t.workload, False))) if t.stage != "warmup" else t
        for t in trials
    )


def failures_of(trials: Sequence[TrialRecord]) -> tuple[Failure, ...]:
    """Every treatment with a failed trial, in repeated blocks too: a crash is a crash.

    The commonest kind stands for all.
    """
    attempted: Counter[tuple[str, str]] = Counter()
    failed: dict[tuple[str, str], list[TrialRecord]] = defaultdict(list)
    for trial in trials:
        attempted[trial.workload, trial.treatment] += trial.status in ("ok", "failed")
        if trial.status == "failed":
            failed[trial.workload, trial.treatment].append(trial)
    found = []
    for key, those in failed.items():
        kind = Counter(t.failure for t in those).most_common(1)[0][0]
        reason = next(t.reason for t in those if t.failure == kind)
        found.append(Failure(*key, failed=len(those), attempted=attempted[key], kind=kind, reason=reason))
    return tuple(found)

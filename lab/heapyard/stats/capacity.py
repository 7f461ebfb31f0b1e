# SPDX-License-Identifier: Apache-2.0
"""From the trials of a search to capacities with intervals, and their ratios to the baseline's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from ..design.capacity_evidence import evidence_of
from ..design.capacity_rates import bounded
from ..design.threshold import Threshold, log_ratio, threshold
from ..model.analysis import Interval, Verdict
from ..model.capacity import Capacities, Capacity, Rate
from ..model.experiment import Experiment
from ..model.leading import leading_memory
from ..model.limits import ASKED, Shown
from ..model.record import Record, TrialRecord

NEAR = 0.1  # of the log rate: trials so close to the capacity show what memory and processor time were there
FEWEST_NEAR = 3  # the nearest ones otherwise


def capacities(record: Record) -> Capacities:
    """The answer; pure, and an answer for any record of a search, however little ran. O(trials x grid)."""
    return capacities_of(record.experiment, record.trials)


def capacities_of(experiment: Experiment, ran: Sequence[TrialRecord]) -> Capacities:
    """The same of a search's trials."""
    settings, evidence = experiment.settings, evidence_of(ran, experiment.settings)
    labels = [t.label for t in experiment.treatments]
    controls = [t.label for t in experiment.treatments if t.role == "control"]
    trials: dict[str, list[TrialRecord]] = {
        label: [t for t in ran if t.treatment == label and t.status == "ok" and ASKED.name in t.metrics] for label in labels
    }
    found = {label: threshold(evidence.shown[label]) for label in labels
             if bounded(evidence.shown[label]) and label not in evidence.given_up}
    others = [label for label in found if label not in (settings.baseline, *controls)]
    together = 1 - (1 - settings.confidence) / max(len(others), 1)  # Bonferroni
    rows = []
    for label in labels:
        one = _of(label, evidence.shown[label], found.get(label), settings.confidence, trials[label])
        one = replace(one, failed=evidence.given_up.get(label, ""))
        if label != settings.baseline and label in found and settings.baseline in found:
            level = settings.confidence if label in controls else together
            ratio = Interval(*map(math.exp, log_ratio(found[label], found[settings.baseline], level)))
            one = replace(one, ratio=ratio, verdict=_verdict(ratio, settings.margin_time))
        rows.append(one)
    rows.sort(key=lambda row: (row.treatment != settings.baseline, -(row.rate.value if row.rate else 0.0)))
    measured = {name for those in trials.values() for t in those for name in t.metrics}
    return Capacities(
        limits=settings.limits,
        baseline=settings.baseline,
        rows=tuple(row for row in rows if row.treatment not in controls),
        control=next((row for row in rows if row.treatment in controls), None),
        left_out=evidence.left_out,
        memory=leading_memory(settings.memory_metric, measured),
    )


def _of(label: str, shown: Sequence[Shown], found: Threshold | None, confidence: float, trials: Sequence[TrialRecord]) -> Capacity:
    kept, broken = [s.rate for s in shown if s.kept], [s.rate for s in shown if not s.kept]
    one = Capacity(label, len(shown), len(kept), kept_up_to=max(kept, default=None), broken_from=min(broken, default=None))
    one = replace(one, broke=tuple(dict.fromkeys(s.broke for s in shown if s.broke)))
    if found is None:
        return one
    rate = Rate(*map(math.exp, found.interval(confidence)))
    return replace(one, rate=rate, near=_near(rate.value, trials))


def _near(rate: float, trials: Sequence[TrialRecord]) -> Mapping[str, float]:
    """Means of every response over trials near the rate. O(trials log trials)."""
    distance = {t.id: abs(math.log(t.metrics[ASKED.name] / rate)) for t in trials if t.stage != "warmup"}
    nearest = sorted((t for t in trials if t.id in distance), key=lambda t: distance[t.id])
    chosen = [t for t in nearest if distance[t.id] <= NEAR] or nearest[:FEWEST_NEAR]
    names = dict.fromkeys(name for t in chosen for name in t.metrics)
    return {name: fmean(t.metrics[name] for t in chosen if name in t.metrics) for name in names}


def _verdict(ratio: Interval, margin: float) -> Verdict:
    if ratio.low > 1 or ratio.high < 1:
        return "better" if ratio.low > 1 else "worse"
    return "equivalent" if 1 / (1 + margin) < ratio.low and ratio.high < 1 + margin else "undecided"

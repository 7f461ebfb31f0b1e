"""Claims that set treatments against each other on the same workloads: faster_than, within, ranks."""

from __future__ import annotations

import math

import numpy as np

from ..model.analysis import Interval
from ..model.claim import Claim
from .claim_part import Part, Selected, shown
from .contrasts import Contrast, Contrasts
from .metric_logs import logs_of
from .tables import Table


def faster_than(claim: Claim, selected: Selected, treatment: str) -> list[Part]:
    """Better than every rival on every workload, in the metric's own direction."""
    better = "below" if selected.direction < 0 else "above"
    parts = []
    for table, rival, contrast in _contrasts(selected, treatment):
        pair, together = contrast.pair, contrast.simultaneous
        if selected.direction > 0:
            pair, together = _inverted(pair), _inverted(together)
        told = f"{shown(contrast.pair)} times {rival} at {_place(table)}"
        if pair.high < 1:
            parts.append(Part("holds", told, -math.log(pair.high)))
        elif min(pair.low, together.low) > 1:
            parts.append(Part("does not hold", f"{told}, not {better}", math.log(together.low)))
        else:
            parts.append(Part("cannot tell", told, 0.0))
    return parts


def within(claim: Claim, selected: Selected, treatment: str) -> list[Part]:
    """The ratio to every rival on every workload lies within the claim's bounds."""
    low, high = claim.bounds
    parts = []
    for table, rival, contrast in _contrasts(selected, treatment):
        told = f"{shown(contrast.pair)} times {rival} at {_place(table)}, claimed {low:g} to {high:g}"
        inner, outer = contrast.tost, contrast.simultaneous
        if low <= inner.low and inner.high <= high:
            parts.append(Part("holds", told, min(inner.low - low, high - inner.high)))
        elif outer.high < low or outer.low > high:
            parts.append(Part("does not hold", told, max(low - outer.high, outer.low - high)))
        else:
            parts.append(Part("cannot tell", told, 0.0))
    return parts


def ranks(claim: Claim, selected: Selected, treatment: str) -> list[Part]:
    """Among the best `places` of all treatments, or of itself and `than`, over the selected workloads, which count alike."""
    field = (*selected.treatments, *selected.rivals) if selected.rivals else selected.tables[0].labels
    everywhere = [t for t in selected.tables[0].labels if all(t in table.labels for table in selected.tables)]
    labels = [t for t in everywhere if t in field]
    if treatment not in labels:
        return []
    shortest = min(len(table.values) for table in selected.tables)
    logs = [logs_of(t)[:shortest, [t.labels.index(x) for x in labels]] for t in selected.tables]
    y = np.concatenate([one - one.mean(axis=1, keepdims=True) for one in logs])
    columns = [i for i, label in enumerate(labels) if not label.endswith("(A/A control)")]
    contrasts = Contrasts(y, columns, confidence=selected.confidence)
    differs, means = contrasts.differs(), contrasts.fit.means[columns] * -selected.direction
    own = columns.index(labels.index(treatment))
    ahead = [labels[columns[i]] for i in np.argsort(means) if differs[own, i] and means[i] < means[own]]
    behind = sum(bool(differs[own, i]) and means[i] > means[own] for i in range(len(columns)))
    place = int((means < means[own]).sum()) + 1
    told = f"place {place} of {len(columns)} over {len(selected.tables)} workloads"
    if len(ahead) >= claim.places:
        return [Part("does not hold", f"{told}; shown to be ahead: {', '.join(ahead)}", float(len(ahead)))]
    if behind >= len(columns) - claim.places:
        return [Part("holds", f"{told}, shown to be ahead of {behind}", float(behind))]
    return [Part("cannot tell", f"{told}, but not told apart from all below place {claim.places}")]


def _contrasts(selected: Selected, treatment: str) -> list[tuple[Table, str, Contrast]]:
    """The treatment against every rival on every workload; simultaneous intervals hold for all of these together."""
    pairs = [
        (table, rival)
        for table in selected.tables
        for rival in selected.rivals
        if rival != treatment and rival in table.labels and treatment in table.labels and len(table.values) > 1
    ]
    family = max(1, len(pairs) * len(selected.treatments))
    found = []
    for table, rival in pairs:
        contrasts = Contrasts(logs_of(table), range(len(table.labels)), confidence=selected.confidence)
        rival_at, own = table.labels.index(rival), table.labels.index(treatment)
        found.append((table, rival, contrasts.against(rival_at, [own], family=family)[0]))
    return found


def _inverted(interval: Interval) -> Interval:
    low, high = interval.low, interval.high
    return Interval(1 / interval.ratio, 1 / high if high > 0 else math.inf, 1 / low if low > 0 else math.inf)


def _place(table: Table) -> str:
    """Where, without the mutator's name: `threads=2`."""
    return table.workload.partition(" ")[2] or table.workload

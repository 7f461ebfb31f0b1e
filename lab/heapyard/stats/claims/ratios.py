# SPDX-License-Identifier: Apache-2.0
"""Claims that compare treatments on the same workloads: faster_than, within, ranks."""

from __future__ import annotations

import math

import numpy as np

from ...model.claim import Claim
from .part import Part, Selected, place, shown
from ..contrasts import Contrast, Contrasts
from ..scale import logs_of


def faster_than(claim: Claim, selected: Selected, treatment: str) -> list[Part]:
    """Better than every rival on every workload, in the metric's own direction."""
    contrasts, parts = _contrasts(selected, treatment)
    for where, contrast in contrasts:
        pair, together, told = contrast.pair, contrast.simultaneous, f"{shown(contrast.pair)} times {where}"
        size = -selected.direction * contrast.difference  # below 0: better
        if pair.high < 1 if selected.direction < 0 else pair.low > 1:
            parts.append(Part("holds", told, -size))
        elif min(pair.low, together.low) > 1 if selected.direction < 0 else max(pair.high, together.high) < 1:
            parts.append(Part("does not hold", f"{told}, which is worse", size))
        else:
            parts.append(Part("cannot tell", told, abs(size)))
    return parts


def within(claim: Claim, selected: Selected, treatment: str) -> list[Part]:
    """The ratio to every rival on every workload lies within the claim's bounds."""
    low, high = claim.bounds
    contrasts, parts = _contrasts(selected, treatment)
    for where, contrast in contrasts:
        told = f"{shown(contrast.pair)} times {where}, claimed {low:g} to {high:g}"
        inner, pair, outer = contrast.tost, contrast.pair, contrast.simultaneous
        beyond = max(low / max(pair.ratio, 1e-300), pair.ratio / max(high, 1e-300))  # above 1: outside
        if low <= inner.low and inner.high <= high:
            parts.append(Part("holds", told, -beyond))
        elif max(outer.high, pair.high) < low or min(outer.low, pair.low) > high:
            parts.append(Part("does not hold", told, beyond))
        else:
            parts.append(Part("cannot tell", told, beyond))
    return parts


def ranks(claim: Claim, selected: Selected, treatment: str) -> list[Part]:
    """Among the best `places` of all treatments, or of the claim's own, over the selected workloads, counting alike."""
    everyone = dict.fromkeys(x for t in selected.tables for x in t.labels if x != selected.control)
    field = [x for x in everyone if not selected.rivals or x in (*selected.treatments, *selected.rivals)]
    labels = [x for x in field if all(x in table.labels for table in selected.tables)]
    missing = [x for x in field if x not in labels]
    if treatment not in labels:
        gone = next((t for t in selected.tables if treatment not in t.labels), None)
        where = f"was not measured at {place(gone.workload)}" if gone else "is the control, which takes no part"
        return [Part("cannot tell", where)]
    if len(labels) <= claim.places:
        return [Part("cannot tell", f"only {len(labels)} were measured everywhere, for {claim.places} places")]
    shortest = min(len(table.values) for table in selected.tables)
    logs = [logs_of(t)[:shortest, [t.labels.index(x) for x in labels]] for t in selected.tables]
    y = np.concatenate([one - one.mean(axis=1, keepdims=True) for one in logs])
    contrasts = Contrasts(y, range(len(labels)), confidence=selected.confidence)
    differs, means = contrasts.differs(), contrasts.fit.means * -selected.direction
    own = labels.index(treatment)
    ahead = [labels[i] for i in np.argsort(means) if differs[own, i] and means[i] < means[own]]
    behind = sum(bool(differs[own, i]) and means[i] > means[own] for i in range(len(labels)))
    at = int((means < means[own]).sum()) + 1
    told = f"place {at} of {len(labels)} over {len(selected.tables)} workloads"
    without = f", without {', '.join(missing)}, not measured everywhere" if missing else ""
    if len(ahead) >= claim.places:
        return [Part("does not hold", f"{told}; shown to be ahead: {', '.join(ahead)}", float(len(ahead)))]
    if behind < len(labels) - claim.places:
        return [Part("cannot tell", f"{told}, but not told apart from all below place {claim.places}{without}")]
    # A rival that the claim names must have been beaten; one that dropped out of the whole field need not.
    named = any(x in selected.rivals for x in missing)
    return [Part("cannot tell" if named else "holds", f"{told}, shown to be ahead of {behind}{without}", float(behind))]


def _contrasts(selected: Selected, treatment: str) -> tuple[list[tuple[str, Contrast]], list[Part]]:
    """The treatment against every rival on every workload, as `rival at workload`; simultaneous intervals hold for all
    contrasts of the claim together. Also the comparisons that could not be made."""
    rivals = [r for r in selected.rivals if r != treatment]
    if not rivals:
        return [], [Part("cannot tell", "has no rival but itself")]
    family = len(selected.tables) * len(selected.rivals) * len(selected.treatments)
    found, left_out = [], []
    for table in selected.tables:
        where = place(table.workload)
        if treatment not in table.labels or len(table.values) < 2:
            why = "was not measured" if treatment not in table.labels else "has one block only"
            left_out.append(Part("cannot tell", f"{why} at {where}", math.inf))
            continue
        contrasts = Contrasts(logs_of(table), range(len(table.labels)), confidence=selected.confidence)
        for rival in rivals:
            if rival in table.labels:
                pair = contrasts.against(table.labels.index(rival), [table.labels.index(treatment)], family=family)[0]
                found.append((f"{rival} at {where}", pair))
            else:
                left_out.append(Part("cannot tell", f"{rival} was not measured at {where}", math.inf))
    return found, left_out

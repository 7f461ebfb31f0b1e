# SPDX-License-Identifier: Apache-2.0
"""Which stored trials say something of a capacity, and what: one rule for the search and for its answer."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..model.experiment import Settings
from ..model.limits import ASKED, TRIAL, Shown, shown
from ..model.record import TrialRecord

OVERLOADED = ("server", "timeout")  # how a trial fails that too high a rate may have broken
BROKEN_OFF = 3  # failures of that kind, with not one trial that kept the limits, after which an allocator is given up
ELSEWHERE = 2  # failures of any other kind after which it is


@dataclass(slots=True)
class Evidence:
    """By allocator: what its trials showed, in the order they ran, and why it was given up."""

    shown: dict[str, list[Shown]] = field(default_factory=lambda: defaultdict(list))
    given_up: dict[str, str] = field(default_factory=dict)
    left_out: int = 0  # trials that a guard found disturbed


def evidence_of(trials: Iterable[TrialRecord], settings: Settings) -> Evidence:
    """A disturbed trial is left out, unless more than `settings.redo_limit` of all would be. What a guard saw does not depend
    on the response. Trials of a block that was cut short count, since none is compared within its block. O(trials)."""
    found, counted = Evidence(), 0
    failures: dict[str, list[TrialRecord]] = defaultdict(list)
    others: dict[str, list[TrialRecord]] = defaultdict(list)
    for trial in trials:
        if trial.stage == "warmup" or trial.status not in ("ok", "failed") or ASKED.name not in trial.metrics:
            continue
        counted += 1
        if trial.status == "ok":
            if trial.tripped and found.left_out + 1 <= math.ceil(settings.redo_limit * counted):
                found.left_out += 1
                continue
            found.shown[trial.treatment].append(shown(trial.metrics, settings.limits, trial=trial.id))
        elif trial.failure in OVERLOADED:
            failures[trial.treatment].append(trial)
            found.shown[trial.treatment].append(Shown(trial.metrics[ASKED.name], math.inf, TRIAL, trial.id))
        else:
            others[trial.treatment].append(trial)
    for label, those in others.items():
        if len(those) >= ELSEWHERE:
            found.given_up[label] = those[-1].reason
    for label, those in failures.items():
        if len(those) >= BROKEN_OFF and not any(one.kept for one in found.shown[label]):
            found.given_up.setdefault(label, those[-1].reason)
    return found

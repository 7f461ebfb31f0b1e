# SPDX-License-Identifier: Apache-2.0
"""A finding of a paper, in a form that can be tested on an experiment, and the outcome of the test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

Kind = Literal["faster_than", "grows_like", "flat_in", "monotone", "within", "ranks", "told"]
Form = Literal["constant", "log", "linear", "n log n", "quadratic"]
Direction = Literal["rises", "falls"]
ClaimVerdict = Literal["holds", "does not hold", "cannot tell"]

KINDS: tuple[Kind, ...] = get_args(Kind)
FORMS: tuple[Form, ...] = get_args(Form)
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence of a paper. `treatments` it speaks of (empty: all), each of which must bear it out.

    faster_than: better in `metric` (its own direction) than every one of `than` (empty: the baseline), at every
    workload selected by `at`. within: the ratio to `than` lies in `bounds`. grows_like: over factor `over` the metric
    follows `form`. flat_in: over `over` it changes by less than the factor `bounds[1]`. monotone: over `over` it
    `direction`. ranks: each is among the best `places` in the metric, of all treatments or of themselves and `than`, over the
    selected workloads together.
    told: recorded only; nothing decides it.

    `processors`: how many the machine must have for the claim to be tested. `source`: where the paper says it.
    """

    text: str
    kind: Kind = "told"
    source: str = ""
    metric: str = ""
    treatments: tuple[str, ...] = ()
    than: tuple[str, ...] = ()
    over: str = ""
    at: dict[str, tuple[str, ...]] = field(default_factory=dict)  # factor -> levels it speaks of; absent: all
    form: Form = "linear"
    direction: Direction = "rises"
    bounds: tuple[float, float] = (0.0, 0.0)
    places: int = 1
    processors: int = 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """What this experiment says of a claim. `evidence`: one sentence with the numbers; `parts`: one per treatment."""

    claim: Claim
    verdict: ClaimVerdict
    evidence: str
    parts: tuple[tuple[str, ClaimVerdict, str], ...] = ()

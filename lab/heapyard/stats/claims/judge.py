# SPDX-License-Identifier: Apache-2.0
"""Tests claims of the literature on an experiment: this file selects what a claim speaks of, then tests it.

A claim about several treatments, rivals or workloads holds only if each part does; each part is then tested at the full
level, since all of them must pass (an intersection-union test). It fails as soon as one part is contradicted, which is
corrected for the number of parts. What was not measured cannot support a claim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...model.claim import Claim, ClaimVerdict, Judgement
from ...model.metrics import as_simulated, metric_named
from ...model.observations import Observations
from . import growth, levels, ratios
from .part import Part, Selected, select
from ..tables import Table, tables
from ..trends import THREADS

COUNTED = "instructions"  # what claims about growth are judged by beside time

_TESTS: dict[str, Callable[[Claim, Selected, str], list[Part]]] = {
    "faster_than": ratios.faster_than,
    "within": ratios.within,
    "ranks": ratios.ranks,
    "flat_in": levels.flat_in,
    "monotone": levels.monotone,
    "grows_like": growth.grows_like,
}


def judge_all(observations: Observations, made: Sequence[Table] | None = None) -> tuple[Judgement, ...]:
    """Every claim of the study, in the order written. `made`: the tables of the experiment, where they are at hand.
    O(claims x rows)."""
    if not observations.claims:
        return ()
    made = tables(observations) if made is None else made
    judged = (judge(claim, observations, made) for claim in observations.claims)
    machine = observations.settings.simulated
    if machine.wanted:
        return tuple(replace(one, evidence=f"simulated on a {machine.words}: {one.evidence}") for one in judged)
    return tuple(judged)


def judge(claim: Claim, observations: Observations, made: Sequence[Table] | None = None) -> Judgement:
    """What the experiment says of one claim; never raises for what was not measured. O(rows + tests of its kind)."""
    if claim.kind == "told":
        return Judgement(claim, "cannot tell", "recorded, not tested")
    if claim.processors and 0 < observations.processors < claim.processors:
        return Judgement(
            claim, "cannot tell", f"needs {claim.processors} processors; this machine has {observations.processors}"
        )
    made = tables(observations) if made is None else made
    if _in_instructions_too(claim):
        counted = as_simulated(COUNTED) if observations.settings.simulated.wanted else COUNTED
        return _beside_time(_judged(claim, observations, made), _judged(replace(claim, metric=counted), observations, made))
    return _judged(claim, observations, made)


def _in_instructions_too(claim: Claim) -> bool:
    """Growth of a time with a size: a law of the algorithm, which instructions follow and which caches bend in time. Over
    threads, time and work are two things."""
    return claim.kind == "grows_like" and metric_named(claim.metric).unit == "s" and claim.over != THREADS


def _beside_time(timed: Judgement, counted: Judgement) -> Judgement:
    """The claim as instructions judge it, with what time says beside it; as time does where no instruction was counted."""
    name = metric_named(timed.claim.metric).title
    if not counted.parts:
        told = f"{timed.evidence}; in {name} alone, which caches bend: instructions were not counted"
        return replace(timed, evidence=told) if timed.parts else timed
    beside = f"beside it, {name}: {timed.verdict}"
    why = f" ({timed.evidence})" if timed.verdict != counted.verdict else ""
    return Judgement(timed.claim, counted.verdict, f"{counted.evidence}; {beside}{why}", counted.parts)


def _judged(claim: Claim, observations: Observations, made: Sequence[Table]) -> Judgement:
    selected = select(claim, observations, made)
    if selected.problem:
        return Judgement(claim, "cannot tell", selected.problem)
    found: list[tuple[str, ClaimVerdict, str]] = []
    gaps = [Part("cannot tell", gap, float("inf")) for gap in selected.gaps]
    for treatment in selected.treatments:
        found.append((treatment, *_together([*_TESTS[claim.kind](claim, selected, treatment), *gaps])))
    found += [(treatment, "cannot tell", why) for treatment, why in selected.absent.items()]
    return Judgement(claim, *_conclude(found, claim), tuple(found))


def _together(parts: Sequence[Part]) -> tuple[ClaimVerdict, str]:
    """One treatment's verdict from its parts, with the decisive evidence."""
    verdicts = {p.verdict for p in parts}
    if "does not hold" in verdicts or "cannot tell" in verdicts:
        verdict: ClaimVerdict = "does not hold" if "does not hold" in verdicts else "cannot tell"
        those = [p for p in parts if p.verdict == verdict]
        more = f" (and {len(those) - 1} more)" if len(those) > 1 else ""
        return verdict, max(those, key=lambda p: p.weight).evidence + more
    least = min(parts, key=lambda p: p.weight)
    return "holds", least.evidence + (f", the least clear of {len(parts)}" if len(parts) > 1 else "")


def _conclude(found: Sequence[tuple[str, ClaimVerdict, str]], claim: Claim) -> tuple[ClaimVerdict, str]:
    """The claim's verdict from its treatments', naming who decides it and, against them, for whom it holds."""
    verdicts = {f[1] for f in found}
    verdict: ClaimVerdict = next(v for v in ("does not hold", "cannot tell", "holds") if v in verdicts)
    deciding = [f for f in found if f[1] == verdict]
    name, _, evidence = deciding[0]
    said = evidence if evidence.startswith(name) else f"{name}, {metric_named(claim.metric).title}: {evidence}"
    others = ", ".join(f[0] for f in deciding[1:])
    if others:
        said += f"; {'likewise' if verdict == 'holds' else 'also'} {others}"
    kept = ", ".join(f[0] for f in found if f[1] == "holds")
    if kept and verdict != "holds":
        said += f"; it holds for {kept}"
    return verdict, said

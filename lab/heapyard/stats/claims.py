"""Claims of the literature held against an experiment: what a claim speaks of is selected here, then tested.

A claim about several treatments, rivals or workloads holds only if each part does; each part is then tested at the full
level, since all of them must pass (an intersection-union test). It fails as soon as one part is contradicted, which is
corrected for the number of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..model.claim import Claim, ClaimVerdict, Judgement
from ..model.metrics import metric_named
from ..model.observations import Observations
from . import claim_growth, claim_levels, claim_ratios
from .claim_part import Part, Selected, select

_TESTS: dict[str, Callable[[Claim, Selected, str], list[Part]]] = {
    "faster_than": claim_ratios.faster_than,
    "within": claim_ratios.within,
    "ranks": claim_ratios.ranks,
    "flat_in": claim_levels.flat_in,
    "monotone": claim_levels.monotone,
    "grows_like": claim_growth.grows_like,
}


def judge_all(observations: Observations) -> tuple[Judgement, ...]:
    """Every claim of the study, in the order written. O(claims x rows)."""
    return tuple(judge(claim, observations) for claim in observations.claims)


def judge(claim: Claim, observations: Observations) -> Judgement:
    """What the experiment says of one claim; never raises for what was not measured."""
    if claim.kind == "told":
        return Judgement(claim, "cannot tell", "recorded, not tested")
    if claim.processors and 0 < observations.processors < claim.processors:
        return Judgement(
            claim, "cannot tell", f"needs {claim.processors} processors; this machine has {observations.processors}"
        )
    selected = select(claim, observations)
    if selected.problem:
        return Judgement(claim, "cannot tell", selected.problem)
    found: list[tuple[str, ClaimVerdict, str]] = []
    for treatment in selected.treatments:
        parts = _TESTS[claim.kind](claim, selected, treatment)
        found.append((treatment, *_together(parts)))
    verdict, evidence = _conclude(found, claim)
    absent = f"; {', '.join(selected.absent)} not measured" if selected.absent else ""
    return Judgement(claim, verdict, evidence + absent, tuple(found))


def _together(parts: Sequence[Part]) -> tuple[ClaimVerdict, str]:
    """One treatment's verdict from its parts, with the decisive evidence."""
    if not parts:
        return "cannot tell", "too few blocks"
    for verdict in ("does not hold", "cannot tell"):
        those = [p for p in parts if p.verdict == verdict]
        if those:
            more = f" (and {len(those) - 1} more like it)" if len(those) > 1 else ""
            return verdict, min(those, key=lambda p: -p.weight).evidence + more  # type: ignore[return-value]
    least = min(parts, key=lambda p: p.weight)
    return "holds", least.evidence + (f", the least clear of {len(parts)}" if len(parts) > 1 else "")


def _conclude(found: Sequence[tuple[str, ClaimVerdict, str]], claim: Claim) -> tuple[ClaimVerdict, str]:
    """The claim's verdict from its treatments', naming who decides it."""
    metric = metric_named(claim.metric).title
    against = [f for f in found if f[1] == "does not hold"]
    open_ = [f for f in found if f[1] == "cannot tell"]
    held = [f for f in found if f[1] == "holds"]
    if against:
        name, _, evidence = against[0]
        others = f"; also {', '.join(f[0] for f in against[1:])}" if len(against) > 1 else ""
        kept = f"; it holds for {', '.join(f[0] for f in held)}" if held else ""
        return "does not hold", f"{name}, {metric}: {evidence}{others}{kept}"
    if open_:
        name, _, evidence = open_[0]
        others = f"; also {', '.join(f[0] for f in open_[1:])}" if len(open_) > 1 else ""
        kept = f"; it holds for {', '.join(f[0] for f in held)}" if held else ""
        return "cannot tell", f"{name}, {metric}: {evidence}{others}{kept}"
    name, _, evidence = held[0]
    others = f"; likewise {', '.join(f[0] for f in held[1:])}" if len(held) > 1 else ""
    return "holds", f"{name}, {metric}: {evidence}{others}"

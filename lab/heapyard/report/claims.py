# SPDX-License-Identifier: Apache-2.0
"""What came of the claims of a study, in words and signs; never in colour alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..model.claim import ClaimVerdict, Judgement

SIGNS: dict[ClaimVerdict, str] = {"holds": "+", "does not hold": "-", "cannot tell": "?"}
CLASSES: dict[ClaimVerdict, str] = {"holds": "holds", "does not hold": "fails", "cannot tell": "open"}
STYLES: dict[ClaimVerdict, str] = {"holds": "green", "does not hold": "red", "cannot tell": ""}


def tally(judgements: Sequence[Judgement]) -> str:
    """`5 of 7 claims hold here, 1 does not, 1 cannot be told`; what is nought is left out."""
    count = Counter(j.verdict for j in judgements)
    total = len(judgements)
    noun, hold = ("claim", "holds") if total == 1 else ("claims", "hold")
    parts = [f"{count['holds']} of {total} {noun} {hold} here"]
    if fails := count["does not hold"]:
        parts.append(f"{fails} {'does' if fails == 1 else 'do'} not")
    if open_ := count["cannot tell"]:
        parts.append(f"{open_} cannot be told")
    return ", ".join(parts)

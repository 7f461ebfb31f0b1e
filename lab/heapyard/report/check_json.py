# SPDX-License-Identifier: Apache-2.0
"""The answer of `heapyard check` as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.check import Found, ReportCard
from .report_card import verdict_of


def check_answer(cards: Sequence[ReportCard], huge_pages: str) -> dict[str, object]:
    """`safe` of a library: no case failed and none was left out. `huge_pages`: the machine's mode, "" if unknown."""
    return {"huge_pages": huge_pages or None, "allocators": [_card(card) for card in cards]}


def _card(card: ReportCard) -> dict[str, object]:
    allocator = card.allocator
    return {
        "name": allocator.name,
        "version": allocator.version,
        "library": str(allocator.library),
        "sha256": allocator.sha256,
        "safe": not card.failed and card.complete,
        "complete": card.complete,
        "verdict": verdict_of(card),
        "cases": [_found(found) for found in card.found],
    }


def _found(found: Found) -> dict[str, object]:
    facts = {
        name: value if isinstance(value, str) else {"value": value[0], "unit": value[1]}
        for name, value in found.facts.items()
    }
    return {
        "case": found.case.label,
        "about": found.case.about,
        "verdict": found.verdict,
        "said": found.said,
        "facts": facts,
        "seconds": round(found.seconds, 3),
    }

# SPDX-License-Identifier: Apache-2.0
"""Claims of the literature in every form of the answer: verdict as sign and word, evidence, and the count of each."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console
from simulated import as_study, curve, simulate

from heapyard.model.claim import Claim, ClaimVerdict, Judgement
from heapyard.report.claims import CLASSES, SIGNS, STYLES, tally
from heapyard.report.html import render
from heapyard.report.json_answer import answer, safe
from heapyard.report.markdown import markdown
from heapyard.report.terminal import print_answer, print_claims

HOLDS, FAILS, OPEN = SIGNS


def judged(*verdicts: ClaimVerdict) -> tuple[Judgement, ...]:
    return tuple(Judgement(Claim(f"claim {i}"), v, f"evidence {i}") for i, v in enumerate(verdicts))


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ([HOLDS] * 5 + [FAILS, OPEN], "5 of 7 claims hold here, 1 does not, 1 cannot be told"),
        ([FAILS] * 2, "0 of 2 claims hold here, 2 do not"),
        ([HOLDS], "1 of 1 claim holds here"),
        ([OPEN], "0 of 1 claim holds here, 1 cannot be told"),
    ],
)
def test_the_count_in_words(verdicts: list[ClaimVerdict], words: str) -> None:
    assert tally(judged(*verdicts)) == words


def test_every_verdict_has_a_sign_of_its_own() -> None:
    assert len(set(SIGNS.values())) == len(SIGNS) == len(CLASSES) == len(STYLES) == 3


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("colour", [False, True])
def test_claims_fold_at_the_width_and_need_no_colour(width: int, colour: bool) -> None:
    claim = Claim("a sentence of a paper " * 6, source="a paper, section 1")
    out = Console(file=io.StringIO(), width=width, force_terminal=colour, highlight=False)
    print_claims(out, (Judgement(claim, "does not hold", "numbers " * 20),))
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.file.getvalue())  # type: ignore[attr-defined]
    assert text.startswith("- does not hold: a sentence") and "(a paper, section 1)" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= width and text.count("numbers") == 20


def test_text_of_a_paper_cannot_move_the_cursor() -> None:
    out = Console(file=io.StringIO(), width=80, highlight=False)
    print_claims(out, (Judgement(Claim("a\x1b[2Jb [red]c"), "holds", "e"),))
    assert "\x1b" not in out.file.getvalue() and "[red]" in out.file.getvalue()  # type: ignore[attr-defined]


def test_claims_stand_in_every_form() -> None:
    analysis, record = as_study(simulate(6, 5, 6)[1])
    console = Console(file=io.StringIO(), width=80, highlight=False, _environ={})
    print_answer(console, analysis, record, verbose=True)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"What others found, tested here: {tally(analysis.judgements)}" in " ".join(text.split())
    assert "? cannot tell: llalloc leads" in text and "needs 64 processors; this machine has 2" in text
    assert "| cannot tell | llalloc leads |" in markdown(analysis, record)
    said = json.loads(json.dumps(answer(analysis, record), allow_nan=False))
    assert [c["claim"]["text"] for c in said["claims"]] == [j.claim.text for j in analysis.judgements]
    assert set(said["claims"][0]) == {"claim", "verdict", "evidence", "parts"}
    page = render(analysis, record, series=curve)
    assert "What others found, tested here" in page and f"<p>{tally(analysis.judgements)}.</p>" in page
    several = [j for j in analysis.judgements if len(j.parts) > 1]
    assert several and page.count("<summary>each treatment</summary>") == len(several)


def test_strict_json_has_no_infinity() -> None:
    assert json.dumps(safe({"a": (float("inf"), [float("nan"), 1.5])}), allow_nan=False) == '{"a": [null, [null, 1.5]]}'

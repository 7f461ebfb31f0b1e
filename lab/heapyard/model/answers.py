# SPDX-License-Identifier: Apache-2.0
"""Judging a program's own answers over a whole experiment: what the baseline always says, every treatment must say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Protocol

from .program import Program


class Answered(Protocol):
    """What must be known of a trial to judge its answer; `answer` is a digest, "" if the trial gave none."""

    @property
    def id(self) -> int: ...
    @property
    def workload(self) -> str: ...
    @property
    def treatment(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def answer(self) -> str: ...


def wrong_answers(
    trials: Iterable[Answered], programs: Iterable[Program], reference: Collection[str]
) -> dict[int, str]:
    """Trials that ended well but with a wrong answer: id -> sentence.

    `reference`: labels of the baseline and its control.

    Concerns programs whose answer must be "consistent". Once two launches of the reference have given one and the same
    answer and none another, a different one is wrong; a program that contradicts itself under the baseline proves
    nothing and is not judged. O(trials).
    """
    judged = {p.name for p in programs if p.answer.output == "consistent"}
    answered = [t for t in trials if t.status == "ok" and t.answer and t.workload in judged]
    said: dict[str, list[str]] = defaultdict(list)
    for trial in answered:
        if trial.treatment in reference:
            said[trial.workload].append(trial.answer)
    agreed = {w: answers[0] for w, answers in said.items() if len(answers) > 1 and len(set(answers)) == 1}
    return {
        t.id: f"its answer differs from the one that {len(said[t.workload])} launches under the baseline gave"
        for t in answered
        if t.answer != agreed.get(t.workload, t.answer)
    }

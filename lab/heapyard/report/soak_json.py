# SPDX-License-Identifier: Apache-2.0
"""The answer of `heapyard soak` for machines."""

from __future__ import annotations

from typing import Any

from ..model.soak import Compared, SoakAnswer


def soak_answer(answer: SoakAnswer) -> dict[str, Any]:
    """JSON-able. `shown` of `runs` under the library, `shown_glibc` of `runs_glibc` under glibc."""
    programs = [
        {"program": p.suite.name, "version": p.version, "tests": p.seen, "tests_of": p.tests, "cases": p.cases, "rounds": p.rounds,
         "runs_now": p.now, "processes": p.served, "failing_under_glibc": p.failing, "malloc_elsewhere": p.elsewhere,
         "remedy": p.remedy, "differences": [_difference(c, c.again) for c in p.differences],
         "once": [_difference(c, c.once) for c in p.once]}
        for p in answer.programs
    ]
    return {"name": answer.name, "seconds": round(answer.seconds, 3), "complete": answer.complete,
            "differences": answer.differences, "programs": programs}


def _difference(compared: Compared, marks: dict[str, tuple[int, int]]) -> dict[str, Any]:
    shown = [{"mark": mark, "shown": here, "shown_glibc": there} for mark, (here, there) in marks.items()]
    return {"test": compared.test, "marks": shown, "runs": len(compared.here), "runs_glibc": len(compared.there),
            "output": compared.output, "output_glibc": compared.output_there}

# SPDX-License-Identifier: Apache-2.0
"""One page over all studies of a folder: what each found, its claims, its figures, and the way to its own report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..model.analysis import Analysis
from ..model.record import Record
from .claims import tally
from .curves.section import drawn
from .html import svg, templates
from .huge_page_words import huge_pages_of
from .page_file import write_page
from .verdict import verdict


def write_suite(path: Path, title: str, studies: Sequence[tuple[Analysis, Record]]) -> None:
    """Write the page; HeapyardError when it cannot be written. O(figures).

    Studies' own reports are linked relative to the page, which lies in the folder that holds the experiments.
    """
    template = templates().get_template("suite.html.j2")
    text = template.render(
        title=title,
        studies=[
            {
                "record": record,
                "analysis": analysis,
                "verdict": verdict(analysis),
                "huge_pages": huge_pages_of(record),
                "report": f"{record.path.name}/report.html",
                "tally": tally(analysis.judgements),
                "figures": drawn(analysis, lambda spec, name, n=number: svg(spec, f"study-{n}-{name}")),  # type: ignore[misc]
            }
            for number, (analysis, record) in enumerate(studies)
        ],
    )
    write_page(path, text)

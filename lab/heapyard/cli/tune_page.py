# SPDX-License-Identifier: Apache-2.0
"""The page of a whole search over settings, beside its experiments' folders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.tuning import PHASES, TuneAnswer
from .answer import REPORT_NAME, write_html

if TYPE_CHECKING:
    from ..model.record import Record


def write_page(answer: TuneAnswer, records: Sequence[Record]) -> Path:
    """Write it, and the confirmation's own page which it links to; where it is. HeapyardError when it cannot be written.

    About two seconds for each allocator, and four for the confirmation's page.
    """
    from ..report.tune_page import write_search
    from ..stats.analyse import analyse

    path = page_of(records[0])
    last = records[-1]
    if answer.reached == PHASES[-1] and last.observations.rows:
        write_html(last.path / REPORT_NAME, analyse(last.observations), last, answer.tuning.preference)
    pages = {phase: record.path / REPORT_NAME for phase, record in zip(answer.experiments, records, strict=True)}
    there = {phase: os.path.relpath(page, path.parent) for phase, page in pages.items() if page.exists()}
    write_search(path, answer, records[0], there)
    return path


def page_of(record: Record) -> Path:
    """Where the page of a record's search lies, written or not."""
    return record.path.parent / f"{record.experiment.suite.replace(' ', '-')}.html"

# SPDX-License-Identifier: Apache-2.0
"""Showing an experiment's answer, the same way after measuring it and whenever it is asked for again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..model.preference import BY_TIME, Preference
from .consoles import answers, remark

if TYPE_CHECKING:
    from ..model.analysis import Analysis
    from ..model.record import Record

REPORT_NAME = "report.html"


def show_answer(
    record: Record,
    analysis: Analysis,
    *,
    json: bool = False,
    html: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    preference: Preference = BY_TIME,
) -> None:
    """Print the answer on standard output, as JSON if wanted; `verbose` with everything behind it.

    `html` writes the report beside the record and says where.
    """
    if json:
        print_json(analysis, record, preference)
    else:
        from ..report.terminal import print_answer

        print_answer(answers(), analysis, record, verbose=verbose, preference=preference)
    if html:
        path = write_html(record.path / REPORT_NAME, analysis, record, preference)
        if not quiet:
            remark(f"report: {path}")


def print_json(analysis: Analysis, record: Record, preference: Preference = BY_TIME) -> None:
    """The answer as one JSON object."""
    import json
    import sys

    from ..report.json_answer import answer

    json.dump(answer(analysis, record, preference), sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")


def write_html(path: Path, analysis: Analysis, record: Record, preference: Preference = BY_TIME) -> Path:
    """Write the self-contained report; where it is."""
    from ..report.html import write_report
    from ..store import read_series

    write_report(
        path, analysis, record, series=lambda name: read_series(record.path, name), preference=preference
    )
    return path

# SPDX-License-Identifier: Apache-2.0
"""Showing what a search for capacities found, the same way after it and whenever it is asked for again."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.journal import BUDGET
from .answer import REPORT_NAME
from .consoles import answers, remark

if TYPE_CHECKING:
    from ..model.record import Record


def is_search(record: Record) -> bool:
    """Did the experiment search for capacities, so that its trials differ in their rates?"""
    return bool(record.experiment.settings.limits)


def ran_out(record: Record) -> bool:
    """Did a search end because its budget did, so that it can go on with a larger one?"""
    return is_search(record) and bool(record.events) and record.events[-1].kind == BUDGET


def show_capacities(record: Record, *, json: bool = False, html: bool = False, quiet: bool = False) -> str:
    """Print the answer on standard output, as JSON if wanted; its first sentence."""
    from ..report.capacity_words import headline
    from ..stats.capacity import capacities

    found = capacities(record)
    if json:
        from ..report.capacity_json import capacity_answer

        json_module.dump(capacity_answer(found, record), sys.stdout, indent=1, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        from ..report.capacity_table import print_capacities

        print_capacities(answers(), found, record)
    if html:
        path = write_capacity_page(record.path / REPORT_NAME, record)
        if not quiet:
            remark(f"report: {path}")
    return headline(found)


def write_capacity_page(path: Path, record: Record) -> Path:
    """Write the self-contained report; where it is."""
    from ..report.capacity_page import write_capacities
    from ..stats.capacity import capacities

    write_capacities(path, capacities(record), record)
    return path

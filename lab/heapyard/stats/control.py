"""The A/A control: the baseline against itself, which must not differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from ..model.analysis import Cell, ControlCheck
from .tables import Table


def number_of_checks(tables: Sequence[Table], control: str, primary: tuple[str, str]) -> int:
    """How many cells are checked, those of the `primary` metrics: the family over which the error is held."""
    return sum(table.metric in primary and control in table.labels for table in tables)


def check_control(cells: Sequence[Cell], primary: tuple[str, str], *, confidence: float) -> ControlCheck:
    """Where the baseline differs from itself, corrected over all checked cells: an honest machine is flagged in at most
    1 - `confidence` of experiments, however many cells there are."""
    checked = [cell for cell in cells if cell.metric in primary and cell.control is not None]
    differs = tuple((c.workload, c.metric) for c in checked if c.control and c.control.p_value < 1 - confidence)
    noise = [c.residual_cv for c in cells if c.metric == primary[0] and not math.isnan(c.residual_cv)]
    return ControlCheck(len(checked), differs, median(noise) if noise else math.nan)

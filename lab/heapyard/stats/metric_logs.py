# SPDX-License-Identifier: Apache-2.0
"""A table's values on the scale they are analysed on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..model.metrics import metric_named
from .scale import scale_for
from .tables import Table


def logs_of(table: Table) -> NDArray[np.float64]:
    """ln(value) or ln(value + one unit of resolution), blocks x labels."""
    return scale_for(metric_named(table.metric), table.values).forward(table.values)

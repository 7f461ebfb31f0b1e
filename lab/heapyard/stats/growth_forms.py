# SPDX-License-Identifier: Apache-2.0
"""The forms of growth that responses are held against, as functions of a number n."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

# Each stands for a + b f(n); ln(n + 1) so that n may be 0.
FORMS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "constant": np.zeros_like,
    "log": lambda n: np.log(n + 1),
    "linear": lambda n: n,
    "n log n": lambda n: n * np.log(n + 1),
    "quadratic": lambda n: n * n,
}

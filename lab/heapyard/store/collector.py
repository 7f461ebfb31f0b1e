# SPDX-License-Identifier: Apache-2.0
"""Python's cyclic collector, off while millions of small objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Each pass would look at all that was made so far and free nothing: a third of the time to read a large experiment."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

# SPDX-License-Identifier: Apache-2.0
"""A number for each test that runs on this machine now, such as for its ports; two soaks at once share no number."""

from __future__ import annotations

import fcntl
import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def a_slot() -> Iterator[int]:
    """The lowest free one, from 0. It is free again when this ends, or the process does. O(numbers taken)."""
    folder = Path(tempfile.gettempdir()) / f"heapyard-soak-slots-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for slot in itertools.count():
        file = os.open(folder / str(slot), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            continue
        try:
            yield slot
        finally:
            os.close(file)
        return

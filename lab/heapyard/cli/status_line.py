# SPDX-License-Identifier: Apache-2.0
"""How far something is: a status on a terminal, a line per ten seconds elsewhere; on standard error."""

from __future__ import annotations

import time

from .consoles import remarks

_TOLD_EACH = 10.0  # seconds between two lines


class StatusLine:
    """A context manager; `began` is when it was made."""

    def __init__(self) -> None:
        self._console = remarks()
        self.began = self._told = time.monotonic()
        self._status = self._console.status("") if self._console.is_terminal else None

    def __enter__(self) -> StatusLine:
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def tell(self, line: str) -> None:
        """Now, where it can be seen at once; else if nothing was told for a while."""
        now = time.monotonic()
        if self._status:
            self._status.update(line)
        elif now - self._told > _TOLD_EACH:
            self._told = now
            self._console.print(f"heapyard: {line}", markup=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """A line that stays."""
        self._console.print(f"heapyard: {text}", markup=False, soft_wrap=True)

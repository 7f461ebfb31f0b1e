# SPDX-License-Identifier: Apache-2.0
"""What the parts of a server's life ask of it, whether a launcher runs it or a keeper."""

from __future__ import annotations

import threading
from typing import Protocol

from ..launcher import Launch


class Started(Protocol):
    """A server that was started, by `launch`."""

    launch: Launch

    def wait(self, seconds: float | None = None, stop: threading.Event | None = None) -> bool:
        """True when it has ended; False after `seconds`."""
        ...

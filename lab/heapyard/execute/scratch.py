# SPDX-License-Identifier: Apache-2.0
"""Temporary folders that do not pile up: what a killed Heapyard left, the next one removes.

Each folder is locked by the process that made it, for as long as it lives, so that one without a lock has lost its owner.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path
from types import TracebackType

_PREFIX = "heapyard_"  # of locked folders alone
_YOUNG = 60.0  # seconds in which a folder may have been made and not locked yet


class ScratchFolder:
    """An empty folder below `parent` (default: the temporary folder); `with` gives its path, and it is gone afterwards.

    The first one below a parent removes the orphans there: O(entries of the parent).
    """

    def __init__(self, parent: Path | None = None):
        parent = parent or Path(tempfile.gettempdir())
        _sweep(parent)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """May be called again."""
        if self._lock < 0:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()


@cache
def _sweep(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*"):
        try:
            status = path.lstat()
            if status.st_uid != os.geteuid() or time.time() - status.st_mtime < _YOUNG:
                continue
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # another one has just removed it, or it is none of ours
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            pass  # its owner lives
        finally:
            os.close(folder)

# SPDX-License-Identifier: Apache-2.0
"""What happens to an unforeseen error: its traceback goes into a file that can be attached to a bug report."""

from __future__ import annotations

import errno
import os
import platform
import shlex
import sys
import tempfile
import time
import traceback
from pathlib import Path

from .. import __version__
from ..model import places

_SENTENCES = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "not permitted",
    errno.EMFILE: "too many open files",
    errno.ENOMEM: "out of memory",
}


def on_disk(error: OSError) -> str:
    """One sentence for an error of the operating system, naming the file if there is one."""
    what = _SENTENCES.get(error.errno or 0, error.strerror or str(error))
    return f"{error.filename}: {what}" if error.filename else what


def keep_traceback(error: BaseException, arguments: list[str]) -> str:
    """Write the traceback to a file in the state folder, else the temporary folder; says where, or how to see it."""
    text = (
        f"heapyard {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        f"{shlex.join(['heapyard', *arguments])}\n\n{''.join(traceback.format_exception(error))}"
    )
    name = time.strftime("crash-%Y%m%d-%H%M%S-") + f"{os.getpid()}.txt"
    for folder in (places.state() / "crashes", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / name
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
            return f"This is a fault of Heapyard; the traceback is in {path} (--debug shows it here)."
        except OSError:
            continue
    sys.stderr.write(text)
    return "This is a fault of Heapyard; the traceback is above."

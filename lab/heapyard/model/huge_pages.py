# SPDX-License-Identifier: Apache-2.0
"""Transparent huge pages: the levels a treatment may have, and the kernel's modes in words."""

from __future__ import annotations

import re

FACTOR = "thp"
# default: as the machine has it. always, madvise: the machine's mode for the time of one trial. never: of one process tree.
LEVELS = ("default", "always", "madvise", "never")
OF_THE_MACHINE = ("always", "madvise")
FACT = "huge_pages_transparent"  # in the snapshot of a machine (execute/environment.py)

_WORDS = {"always": "huge pages always", "madvise": "huge pages on request (madvise)", "never": "huge pages never"}


def chosen(text: str) -> str | None:
    """The word in brackets, such as madvise of `always [madvise] never`; None without one."""
    found = re.search(r"\[(\S+)\]", text)
    return found[1] if found else None


def in_words(mode: str | None) -> str:
    """A short phrase; "" for a mode that is not known."""
    return _WORDS.get(mode or "", "")

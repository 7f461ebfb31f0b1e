# SPDX-License-Identifier: Apache-2.0
"""Where output goes: answers to standard output, everything else to standard error; colour on terminals only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def answers() -> Console:
    """The console of standard output. NO_COLOR, TERM=dumb and pipes get plain text."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False)


def remarks() -> Console:
    """The console of standard error: progress and remarks."""
    from rich.console import Console

    return Console(file=sys.stderr, highlight=False)


def remark(text: str) -> None:
    """One line on standard error, in the voice of the errors."""
    print(f"heapyard: {text}", file=sys.stderr, flush=True)

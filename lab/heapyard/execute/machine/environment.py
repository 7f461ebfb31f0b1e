# SPDX-License-Identifier: Apache-2.0
"""What this shell hands on to programs: settings of allocators, which a user's own command inherits in every row."""

from __future__ import annotations

import os
from collections.abc import Mapping

from .finding import Finding

NAMES = {"GLIBC_TUNABLES", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PYTHONMALLOC", "SCUDO_OPTIONS"}
PREFIXES = ("MALLOC_", "JE_MALLOC_", "MIMALLOC_", "TCMALLOC_", "RPMALLOC_", "TBB_MALLOC_")


def environment(variables: Mapping[str, str] = os.environ) -> Finding:
    """Variables that change how an allocator behaves, or which one serves."""
    found = sorted(name for name, value in variables.items() if value and (name in NAMES or name.startswith(PREFIXES)))
    if not found:
        return Finding("environment", "ok", "no settings of allocators")
    return Finding(
        "environment",
        "warn",
        ", ".join(found),
        "your own commands inherit them under every allocator they concern",
        "measure without them, unless your servers run so",
        f"unset {' '.join(found)}",
    )

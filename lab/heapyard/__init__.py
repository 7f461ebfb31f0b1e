# SPDX-License-Identifier: Apache-2.0
"""Heapyard's lab: designed, randomised, interleaved experiments over heap allocators.

`import heapyard` offers compare, run, resume, load and experiments; docs/library.md explains them with an example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api.experiments import compare, experiments, load, resume, run
    from .api.outcome import Outcome
    from .model.errors import HeapyardError

__version__ = "0.1.0"

__all__ = ["HeapyardError", "Outcome", "compare", "experiments", "load", "resume", "run"]

_ROOMS = {"Outcome": "api.outcome", "HeapyardError": "model.errors"}


def __getattr__(name: str) -> Any:
    """Names are loaded when they are first used: the command line must start in a moment."""
    if name not in __all__:
        raise AttributeError(f"module 'heapyard' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(f".{_ROOMS.get(name, 'api.experiments')}", __name__), name)

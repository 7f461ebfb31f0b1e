# SPDX-License-Identifier: Apache-2.0
"""Where things are on disk. Pure path arithmetic; nothing is created here."""

from __future__ import annotations

import os
from pathlib import Path


def root() -> Path:
    """The checkout: HEAPYARD_ROOT (set by the launcher), else the folder this package lies in."""
    given = os.environ.get("HEAPYARD_ROOT")
    return Path(given) if given else Path(__file__).resolve().parents[3]


def state() -> Path:
    """Everything set-up makes: Python environment, native build, peers, inputs. Safe to delete."""
    given = os.environ.get("HEAPYARD_STATE")
    return Path(given) if given else root() / ".heapyard"


def native(name: str) -> Path:
    """A native part: an executable such as `trial`, or a library such as `libheapyard_witness.so`."""
    folder = "lib" if name.endswith(".so") else "bin"
    return state() / "build" / "release" / folder / name


def own_heaps() -> Path:
    """The list of malloc libraries made from heap/, a JSON array of {name, title, version}."""
    return state() / "build" / "release" / "heaps.json"


def peers() -> Path:
    """Allocators built from source: <name>/lib<name>.so and <name>/provenance.json."""
    return state() / "peers"


def inputs() -> Path:
    """Inputs of the real programs, generated once."""
    return state() / "inputs"


def results() -> Path:
    """One folder per experiment: HEAPYARD_RESULTS, else the user's data folder."""
    given = os.environ.get("HEAPYARD_RESULTS")
    if given:
        return Path(given)
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data) / "heapyard" / "results"


def profiles() -> Path:
    """One folder per profile: `profiles` beside the experiments' folder."""
    return results().parent / "profiles" if not os.environ.get("HEAPYARD_RESULTS") else results() / "profiles"


def user_catalog() -> Path:
    """The user's own allocators and programs, one TOML file."""
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(config) / "heapyard" / "catalog.toml"

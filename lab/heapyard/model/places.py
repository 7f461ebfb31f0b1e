# SPDX-License-Identifier: Apache-2.0
"""Where things are on disk. Pure path arithmetic; nothing is created here."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_CARRIED = _PACKAGE / "yard"  # in a wheel: programs, peers, studies and a corpus, laid out as in a checkout


def is_installed() -> bool:
    """Whether this package came as a wheel, which carries what it needs, and not from a checkout."""
    return _CARRIED.is_dir()


def root() -> Path:
    """Programs, peers and studies: HEAPYARD_ROOT (set by the launcher), else the wheel's own, else the checkout."""
    given = os.environ.get("HEAPYARD_ROOT")
    if given:
        return Path(given)
    return _CARRIED if is_installed() else _PACKAGE.parents[1]


def state() -> Path:
    """What set-up and the lab make: Python environment, native build, peers, inputs. Safe to delete."""
    given = os.environ.get("HEAPYARD_STATE")
    if given:
        return Path(given)
    return _data() / "state" if is_installed() else root() / ".heapyard"


def built() -> Path:
    """What the native build makes: bin/, lib/, and the lists heaps.json and mutators.json.

    HEAPYARD_BUILT is set where they came to a node of a fleet with a block.
    """
    if given := os.environ.get("HEAPYARD_BUILT"):
        return Path(given)
    return _PACKAGE / "native" if is_installed() else state() / "build" / "release"


def native(name: str) -> Path:
    """A native part: an executable such as `trial`, or a library such as `libheapyard_witness.so`."""
    return built() / ("lib" if name.endswith(".so") else "bin") / name


def repair() -> str:
    """What brings back a native part that is missing, as one sentence."""
    if is_installed():
        return "Install Heapyard's wheel again: it is not whole."
    return "Start again with ./heapyard, which builds it."


def own_heaps() -> Path:
    """The list of malloc libraries made from heap/, a JSON array of {name, title, version}."""
    return built() / "heaps.json"


def mutators() -> Path:
    """The list of mutators, a JSON array of names."""
    return built() / "mutators.json"


def studies(named: Path) -> Path:
    """A study or folder of studies: as named, else from the wheel, where `studies/quick.toml` is one that it carries."""
    return root() / named if is_installed() and not named.exists() and (root() / named).exists() else named


def peers() -> Path:
    """Allocators built from source: <name>/lib<name>.so and <name>/provenance.json."""
    return state() / "peers"


def inputs() -> Path:
    """Inputs of the real programs, generated once."""
    return state() / "inputs"


def results() -> Path:
    """One folder per experiment: HEAPYARD_RESULTS, else the user's data folder."""
    given = os.environ.get("HEAPYARD_RESULTS")
    return Path(given) if given else _data() / "results"


def profiles() -> Path:
    """One folder per profile: `profiles` beside the experiments' folder."""
    return results().parent / "profiles" if not os.environ.get("HEAPYARD_RESULTS") else results() / "profiles"


def fuzzed() -> Path:
    """One folder per library that was fuzzed: `fuzz` beside the experiments' folder."""
    return results().parent / "fuzz" if not os.environ.get("HEAPYARD_RESULTS") else results() / "fuzz"


def corpus() -> Path:
    """Operations that a new campaign of `heapyard fuzz` plays first: files NAME.operations (tests/guided_fuzz.py makes them)."""
    return root() / "lab" / "native" / "fuzz" / "corpus"


def soaked() -> Path:
    """The record of what was soaked, and what differed: `soak` beside the experiments' folder."""
    return results().parent / "soak" if not os.environ.get("HEAPYARD_RESULTS") else results() / "soak"


def checked() -> Path:
    """What `check` said of libraries: `checked` beside the experiments' folder."""
    return results().parent / "checked" if not os.environ.get("HEAPYARD_RESULTS") else results() / "checked"


def user_catalog() -> Path:
    """The user's own allocators and programs, one TOML file."""
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(config) / "heapyard" / "catalog.toml"


def _data() -> Path:
    """The user's data folder."""
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data) / "heapyard"

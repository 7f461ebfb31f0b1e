# SPDX-License-Identifier: Apache-2.0
"""Reading what the simulator wrote about a run (simulator/FORMAT.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from ...model.damage import DAMAGE, in_words, object_of
from ...model.simulation import COUNTS, Counts, Line, OwnerKind, Place, Run, Writer

VERSION = 1  # of the format


def read_run(path: Path) -> tuple[Run | None, str]:
    """The run in a file, or None and what is wrong with it, to follow "the simulator". O(bytes)."""
    try:
        content = path.read_bytes()
    except OSError:
        return None, "left no result"
    try:
        return run_of(object_of(content)), ""
    except DAMAGE as error:
        return None, f"left a result that cannot be read ({in_words(error)})"


def run_of(given: dict[str, Any]) -> Run:
    """The run that an object of the format describes; an error of DAMAGE when it is none."""
    if given["simulation"] != VERSION:
        raise ValueError(f"version {given['simulation']!r} of the format is not known")
    machine, measured = given["machine"], given["measured_seconds"]
    return Run(
        engine=str(given["engine"]),
        machine=str(machine["title"]),
        cores=int(machine["cores"]),
        hertz=float(machine["hertz"]),
        seed=int(given["seed"]),
        seconds=float(given["seconds"]),
        measured_seconds=None if measured is None else float(measured),
        totals=_counts(given["totals"]),
        threads=len(given["threads"]),
        lines=tuple(_line(line) for line in given["lines"]),
        real_seconds=float(given["real_seconds"]),
        accesses=int(given["accesses"]),
        memory=int(given["peak_resident_bytes"]),
        measured=None if given["measured"] is None else _counts(given["measured"]),
        false_sharing_lines=int(given["false_sharing_lines"]),
        warnings=tuple(map(str, given.get("warnings", ()))),
    )


def _counts(given: dict[str, Any]) -> Counts:
    found: dict[str, Any] = {name: float(given[name]) if name.endswith("_seconds") else int(given[name]) for name in COUNTS}
    return Counts(**found)


def _line(given: dict[str, Any]) -> Line:
    owner = given["owner"]
    if owner["kind"] not in get_args(OwnerKind):
        raise ValueError(f"the owner of a line is a {owner['kind']!r}")
    return Line(
        address=int(given["address"]),
        transfers=int(given["transfers"]),
        invalidations=int(given["invalidations"]),
        coherence_misses=int(given["coherence_misses"]),
        is_false_sharing=bool(given["is_false_sharing"]),
        writers=tuple(Writer(int(w["thread"]), int(w["low"]), int(w["high"]), int(w["stores"])) for w in given["writers"]),
        kind=owner["kind"],
        owner=Place(str(owner["module"]), int(owner["offset"]), name=str(owner["name"])),
        code=tuple(Place(str(c["module"]), int(c["offset"]), int(c["count"])) for c in given["code"]),
    )

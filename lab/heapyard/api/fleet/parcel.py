# SPDX-License-Identifier: Apache-2.0
"""What travels to a node: one block with all that it takes to run it, and the digests of the files it needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...store.codec import decode, encode
from ...store.sealed import seal, unseal
from ...execute.loop.errand import Errand
from ...execute.loop.plan import Pair
from .parts import Part
from .room import Room

PARCEL, JOB = "parcel.json", "job.json"


@dataclass(frozen=True, slots=True)
class Parcel:
    """`token` is what the lease must be taken for. `room`: the shared folder, as the controller sees it."""

    experiment: str
    title: str
    token: str
    room: str
    version: str  # of heapyard
    libc: str
    errand: Errand
    parts: tuple[Part, ...]
    warm_up: bool  # may the node run the baseline once, uncounted, if the workload is new to it?


@dataclass(frozen=True, slots=True)
class Given:
    """To which job a block was given."""

    job: str
    engine: str


@dataclass(frozen=True, slots=True)
class Standing:
    """What agents need not run any more, as the controller knows it by now."""

    dropped: tuple[Pair, ...] = ()
    abandoned: tuple[str, ...] = ()


def write_parcel(folder: Path, parcel: Parcel) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    seal(folder / PARCEL, encode(parcel))


def read_parcel(folder: Path) -> Parcel:
    return decode(Parcel, unseal(folder / PARCEL))


def most_seconds(errand: Errand) -> float:
    """What a block takes if every trial lasts as long as it may, with one to warm up."""
    return errand.settings.timeout * (len(errand.positions) + 1)


def write_given(folder: Path, given: Given) -> None:
    seal(folder / JOB, encode(given))


def read_given(folder: Path) -> Given | None:
    """None where the controller ended before it knew."""
    try:
        return decode(Given, unseal(folder / JOB))
    except FileNotFoundError:
        return None


def write_standing(room: Room, standing: Standing) -> None:
    seal(room.standing, encode(standing))


def read_standing(room: Room) -> Standing:
    try:
        return decode(Standing, unseal(room.standing))
    except FileNotFoundError:
        return Standing()


def job_name(experiment: str) -> str:
    """Under which all jobs of an experiment are listed and cancelled."""
    return f"heapyard-{experiment}"

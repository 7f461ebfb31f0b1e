# SPDX-License-Identifier: Apache-2.0
"""Transparent huge pages as a treatment asks for them: the machine's mode, changed for the time of one trial if need be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..model.errors import UsageError
from ..model.experiment import Settings, Treatment
from ..model.huge_pages import FACTOR, OF_THE_MACHINE
from .machine.memory import THP
from .system_settings import changed, in_force, require_permission

ENABLED = Path("/") / THP


def mode() -> str:
    """The machine's mode; "" where the kernel has no huge pages, or does not tell. One small read."""
    try:
        return in_force(ENABLED.read_text())
    except OSError:
        return ""


def level_of(treatment: Treatment) -> str:
    return treatment.levels.get(FACTOR, "default")


def sets_the_machine(treatments: Iterable[Treatment]) -> bool:
    """Does a level of theirs belong to the whole machine? Such trials cannot share it."""
    return any(level_of(treatment) in OF_THE_MACHINE for treatment in treatments)


def require(levels: Iterable[str], *, change_system: bool) -> None:
    """UsageError where a level needs another mode of the machine, and this process may not set it. Changes nothing."""
    now = mode()
    for level in levels:
        if level not in OF_THE_MACHINE or level == now:
            continue
        if not now:
            raise UsageError(f"thp={level} needs transparent huge pages, and {ENABLED} does not tell of any")
        if not change_system:
            raise UsageError(
                f"thp={level} is a mode of the whole machine, which has {now}: add --change-system as root, which sets it "
                f"for one trial at a time and puts {now} back, or give the machine that mode beforehand"
            )
        require_permission([f"{ENABLED}={level}"])


@contextmanager
def given(treatment: Treatment, settings: Settings) -> Iterator[str]:
    """The treatment's huge pages for the time of a launch; the mode its program has, "" where none is known.

    UsageError when somebody took the mode from the machine and the settings do not permit to change it.
    """
    level = level_of(treatment)
    if level not in OF_THE_MACHINE:
        yield level if level == "never" else mode()  # the launcher switches them off for its program alone
        return
    require([level], change_system=settings.change_system)
    with changed(f"{ENABLED}={level}"):
        yield level

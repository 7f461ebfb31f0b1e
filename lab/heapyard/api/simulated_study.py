# SPDX-License-Identifier: Apache-2.0
"""What changes of a study when its trials run on a simulated machine: refusals, the names of responses, replication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.errors import UsageError
from ..model.experiment import Treatment
from ..model.metrics import PRIMARY_MEMORY, SIMULATED_PHASE, SIMULATED_TIME, as_simulated
from ..model.simulation import LONGEST, Simulated

if TYPE_CHECKING:
    from ..catalog.study import Study
    from ..model.program import Program

BLOCKS = 3  # seeds, unless the study says otherwise
# What a study may ask of a real machine, and a simulated one has not.
_REAL_SETTINGS = {
    "precision": "noise to bring down to a precision", "cpus": "processors to pin to", "slice": "slices",
    "limits": "load to search a capacity with",
    "count_syscalls": "counting of system calls", "count_instructions": "counting of instructions beside it",
    "change_system": "setting of huge pages",
}
_REAL_FACTORS = ("thp", "cpus", "tracer")


def machine_of(study: Study) -> Simulated:
    found: Simulated = study.settings.get("simulated", Simulated())
    return found


def check_study(study: Study) -> None:
    """UsageError for what a simulated machine does not have."""
    settings = study.settings
    for name, what in _REAL_SETTINGS.items():
        if settings.get(name):
            raise UsageError(f"a simulated machine knows no {what}", remedy="Leave it out of the study.")
    if settings.get("interleave", "trials") == "slices":
        raise UsageError("trials on a simulated machine cannot run in slices", remedy="Leave out interleave.")
    if "fleet" in settings and settings["fleet"].engine:
        raise UsageError("a study runs on a simulated machine or on a fleet, not on both", remedy="Leave out one of them.")
    for factor in _REAL_FACTORS:
        if factor in study.factors:
            raise UsageError(f"the factor {factor} is of a real machine", remedy="Leave it out of a study that is simulated.")


def settings_of(study: Study) -> dict[str, Any]:
    """The study's settings for a simulated machine: blocks are seeds, and a time limit holds for real seconds."""
    given = {name: value for name, value in study.settings.items() if name not in ("pilot_blocks", "max_blocks", "interleave")}
    given.setdefault("blocks", BLOCKS)
    given.setdefault("timeout", LONGEST)
    time = given.get("time_metric")
    given["time_metric"] = as_simulated(time) if time else SIMULATED_PHASE if study.mutator else SIMULATED_TIME
    given["memory_metric"] = as_simulated(given.get("memory_metric", PRIMARY_MEMORY))
    return given


def check_programs(programs: Sequence[Program], treatments: Sequence[Treatment]) -> None:
    """UsageError for the first program that cannot run on a simulated machine."""
    from ..catalog.simulatable import simulation_flaw

    injected = any(treatment.allocator.library for treatment in treatments)
    for program in programs:
        if program.server:
            raise UsageError(f"{program.name} is a server: its load would run in real time, and the server in simulated time")
        if flaw := simulation_flaw(Path(program.command[0]), injected=injected):
            raise UsageError(flaw[0], remedy=flaw[1])


def as_simulated_study(study: Study) -> Study:
    """With the label wherever a number of it may stand: in the title and in figures; and with the names that responses have
    there. A study of a real machine, or one that has it already, stays as it is."""
    machine = machine_of(study)
    label = f", simulated on a {machine.words}"
    if not machine.wanted or study.title.endswith(label):
        return study
    return replace(
        study,
        title=f"{study.title}{label}",
        figures=tuple(
            replace(figure, title=f"{figure.title}{label}", metric=as_simulated(figure.metric),
                    y_title=f"{figure.y_title}, simulated" if figure.y_title else "")
            for figure in study.figures
        ),
        claims=tuple(replace(claim, metric=as_simulated(claim.metric) if claim.metric else "") for claim in study.claims),
    )

# SPDX-License-Identifier: Apache-2.0
"""From what the user asked for to an experiment that can be stored: names looked up, inputs made, defaults added."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from ..model.allocator import Allocator
from ..model.errors import HeapyardError, SetupError, UsageError
from ..model.experiment import Experiment, Settings, Treatment

from . import simulated_study

if TYPE_CHECKING:
    from ..catalog.study import Study
    from ..model.program import Program

DEFAULT_BUDGET = 240.0  # seconds, unless a precision, a number of blocks or a budget is asked for
EVERY = "all"  # in place of names of allocators: every one that is installed, apart from the heaps built here
DEFAULT_PATIENCE = 20.0  # times the baseline's warm-up, unless a time limit is asked for

_SEED_LIMIT = 2**31  # seeds stay short enough to type


def silent(_: str) -> None:
    """What is said, if nobody wants to hear it."""


def assemble(study: Study, *, full: bool = False, to_run: bool = True, say: Callable[[str], None] = silent) -> Experiment:
    """The experiment a study describes on this machine. Installs usual allocators and programs that are missing.

    UsageError for names that mean nothing; SetupError when there is nothing to compare. `full`: programs at full size
    unless the study says otherwise. Making inputs may take a while the first time. `to_run`: UsageError too where a level
    needs a setting of the machine that this process may not change. `say` is told what is installed or left out.
    """
    from ..catalog.treatments import cross
    from ..execute.huge_pages import require
    from ..execute.simulator.engine import have_engine
    from ..model.huge_pages import FACTOR

    study, simulated = simulated_study.as_simulated_study(study), simulated_study.machine_of(study).wanted
    if simulated:
        simulated_study.check_study(study)
        if to_run:
            have_engine(say)
    _check_tools(study)
    here = to_run and not ("fleet" in study.settings and study.settings["fleet"].engine)
    if here:
        require(study.factors.get(FACTOR, ()), change_system=study.settings.get("change_system", False))
    allocators = _allocators(study, say)
    programs = _programs(study, full, say)
    if here:
        _check_ports(programs)
    treatments, baseline = cross(allocators, study.factors, study.baseline, _own_treatments(study, allocators))
    if len(treatments) < 3:  # the baseline and its control
        raise SetupError(
            f"there is nothing to compare {study.baseline} with",
            remedy="Install allocators with: heapyard allocators install --default",
        )
    names = [p.name for p in programs]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise UsageError(f"the program '{twice}' is named twice")
    if simulated:
        simulated_study.check_programs(programs, treatments)
    return Experiment(
        title=study.title or _title(names, allocators),
        settings=_settings(study, baseline, programs),
        programs=programs,
        treatments=treatments,
        argv=("heapyard", *sys.argv[1:]),
        cwd=os.getcwd(),
        study=study.text,
        figures=study.figures,
        claims=study.claims,
    )


def _settings(study: Study, baseline: str, programs: tuple[Program, ...]) -> Settings:
    from ..execute.memory_source import obstacle_to_groups

    simulated = simulated_study.machine_of(study).wanted
    given = simulated_study.settings_of(study) if simulated else dict(study.settings)
    unknown = set(given) - {f.name for f in fields(Settings)}
    assert not unknown, f"unknown settings: {unknown}"
    given.setdefault("seed", secrets.randbelow(_SEED_LIMIT))
    if "time_metric" not in given and (lead := _lead(study, programs)):
        given["time_metric"] = lead
    if not {"precision", "blocks", "budget"} & given.keys():
        given["budget"] = DEFAULT_BUDGET
    if "timeout" not in given:
        given["patience"] = DEFAULT_PATIENCE
    if simulated:
        return Settings(baseline=baseline, **given)
    obstacle = obstacle_to_groups()  # found out once, for all trials
    given["control_groups"] = not obstacle
    if obstacle and given.get("memory_metric", "").startswith("group_"):
        raise SetupError(obstacle, remedy='The study asks for its figures; memory = "charged" needs none.')
    settings = Settings(baseline=baseline, **given)
    return replace(settings, looks=_looks(study, settings))


def _lead(study: Study, programs: tuple[Program, ...]) -> str:
    """The response that the verdict on servers speaks of, "" if there are none; UsageError where programs have different ones."""
    from ..catalog.server_command import lead_of

    found: dict[str, str] = {}
    for program in programs:
        command = study.commands.get(program.name)
        served = program.server and command and command.load
        found[program.name] = lead_of(command.load, program.server) if served else ""  # type: ignore[union-attr, arg-type]
    if len(set(found.values())) > 1:
        told = " and ".join(f"{lead or 'wall'} of {name}" for name, lead in found.items())
        raise UsageError(f"the verdict would speak of {told}, and cannot speak of several responses",
                         remedy='Write time = "wall" in [study] for the wall time of all, or two studies.')
    return next(iter(found.values()), "")


def _looks(study: Study, settings: Settings) -> tuple[int, ...]:
    """When to look for what is settled: never where a width or a number of blocks was asked for, or where claims and
    figures need every level measured alike."""
    from ..design.looks import looks_from

    asked = {"precision", "blocks"} & study.settings.keys()
    if asked or study.factors or study.claims or study.figures or study.mutator:
        return ()
    return looks_from(settings.pilot_blocks, settings.max_blocks)


def _allocators(study: Study, say: Callable[[str], None]) -> list[Allocator]:
    from ..catalog.allocators import find_allocators, installed_allocators, load_allocators
    from ..catalog.peers.usual import install_usual

    libraries = {name: library.path for name, library in study.libraries.items()}
    if study.baseline.partition(":")[0] not in load_allocators():
        find_allocators([study.baseline], libraries)  # says so before anything is installed
    names = list(study.allocators)
    names = spelled_out(names)
    if not names:
        install_usual(say)
        names = [a.name for a in installed_allocators() if a.usual] + list(study.libraries)
    if study.baseline not in names:
        names.insert(0, study.baseline)
    if study.if_installed:
        there = {a.name for a in installed_allocators()}
        names += [name for name in study.if_installed if name.partition(":")[0] in there and name not in names]
    found = find_allocators(names, libraries)
    own = {name: library.env for name, library in study.libraries.items() if library.env}
    found = [replace(a, env={**a.env, **own[a.base]}) if a.base in own else a for a in found]
    asked_for = {*study.allocators, *study.libraries, study.baseline}
    return [a for a in found if _loads(a, a.name in asked_for, say)]


def spelled_out(names: Sequence[str]) -> list[str]:
    """The names, each once, with those that EVERY stands for in its place."""
    from ..catalog.allocators import installed_allocators
    from ..catalog.own_heaps import own_heaps

    if EVERY not in names:
        return list(names)
    own_here = {heap.name for heap in own_heaps()}
    every = [a.name for a in installed_allocators() if a.name not in own_here]
    return list(dict.fromkeys(name for given in names for name in (every if given == EVERY else [given])))


def _own_treatments(study: Study, allocators: list[Allocator]) -> dict[str, tuple[Allocator, tuple[str, ...]]]:
    """The study's own treatments by name, each with its arguments; UsageError for an allocator the study does not have."""
    from ..catalog.mutators import arguments

    named = {a.name: a for a in allocators}
    for name, own in study.treatments.items():
        if own.allocator not in named:
            raise UsageError(f"treatment '{name}' uses {own.allocator}, which is not among the study's allocators")
    return {name: (named[own.allocator], arguments(own.options)) for name, own in study.treatments.items()}


def _loads(allocator: Allocator, asked_for: bool, say: Callable[[str], None]) -> bool:
    """Does the library serve /bin/true? One that was asked for must; another is left out with a remark."""
    from ..execute.preflight import check

    try:
        check([Treatment(allocator.name, allocator)], Settings())
    except UsageError as error:
        if asked_for:
            raise
        say(f"{allocator.name} is left out: {error.message}")
        return False
    return True


def _check_ports(programs: tuple[Program, ...]) -> None:
    """UsageError for a server whose fixed port is in use: better now than in the first trial."""
    from ..execute.trial_environment import free_port

    for program in programs:
        if program.server and program.server.port:
            free_port(program.server.port)


def _check_tools(study: Study) -> None:
    for setting, tool in (("count_syscalls", "strace"), ("count_instructions", "valgrind")):
        if study.settings.get(setting) and shutil.which(tool) is None:
            raise SetupError(f"counting needs {tool}", remedy=f"Install it: apt-get install {tool}")


def _programs(study: Study, full: bool, say: Callable[[str], None]) -> tuple[Program, ...]:
    from ..catalog.program_command import program_from_command

    if study.mutator:
        from ..catalog.mutators import workloads

        only = [option for own in study.treatments.values() for option in own.options]
        for told in study.skipped:
            say(f"left out: {told}")
        if study.fraction:
            say(f"a fraction of 1/{study.fraction.share} of the combinations of {', '.join(study.fraction.factors)}")
            for told in study.fraction.confounded:
                say(told)
        return workloads(study.mutator, study.options, study.levels, only, study.constraints, study.fraction)
    own = {
        name: program_from_command(
            c.argv, stdin=c.stdin, env=c.env, cwd=c.cwd, name=name, expect_exit=c.expect_exit, check=c.check, load=c.load
        )
        for name, c in study.commands.items()
    }
    wanted = study.programs or tuple(own) or _usual_programs(say)
    return tuple(own[name] if name in own else _prepare(name, full, say) for name in wanted)


def _prepare(name: str, full: bool, say: Callable[[str], None]) -> Program:
    from ..catalog.programs import prepare_program

    return prepare_program(name, "full" if full else "quick", say)


def _usual_programs(say: Callable[[str], None]) -> tuple[str, ...]:
    """The quick set, installed first if need be; a program that cannot be had is said and left out."""
    from ..catalog.programs import install_programs, load_programs

    missing = [c.name for c in load_programs().values() if c.quick and c.status == "available"]
    if missing:
        say(f"installing the usual programs once: {', '.join(missing)}")
        try:
            install_programs(missing, say)
        except HeapyardError as error:
            say(" ".join(filter(None, (error.message, error.remedy))))
    quick = [c for c in load_programs().values() if c.quick]
    for card in quick:
        if card.status != "installed":
            say(f"{card.name} is left out: {card.reason}")
    there = tuple(c.name for c in quick if c.status == "installed")
    if not there:
        raise SetupError("none of the usual programs can run here", remedy="heapyard programs says why.")
    return there


def _title(programs: list[str], allocators: list[Allocator]) -> str:
    shown = ", ".join(programs) if len(programs) <= 3 else f"{len(programs)} programs"
    return f"{shown} under {len(allocators)} allocators"

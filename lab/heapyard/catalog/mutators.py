# SPDX-License-Identifier: Apache-2.0
"""The mutators built here as workloads: one program per combination of levels of its options."""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..model import places
from ..model.damage import DAMAGE
from ..model.errors import SetupError, UsageError
from ..model.program import RESULT_FILE, Answer, Program
from .formula import evaluate, holds, names_in
from .fraction import Fraction

Value = str | int | float | bool

PROCESSORS = "processors"

_OPTION = re.compile(r"--([a-z][a-z0-9-]*)")


def find_mutator(name: str) -> Path:
    """The executable of a mutator; UsageError when there is none of that name, SetupError when it is not built."""
    listed = _listed()
    if name not in listed:
        raise UsageError(f"there is no mutator '{name}'; there are {', '.join(listed)}")
    path = places.native(name)
    if not os.access(path, os.X_OK):
        raise SetupError(
            f"the mutator {name} has not been built", remedy=places.repair()
        )
    return path


def _listed() -> list[str]:
    try:
        return [str(one) for one in json.loads(places.mutators().read_text())]
    except (OSError, *DAMAGE):
        raise SetupError(f"the list of mutators {places.mutators()} is missing or damaged", remedy=places.repair()) from None


def mutator_command(argv: Sequence[str]) -> Program | None:
    """A command line whose first word is the name of a mutator, with the file that its result goes to; None for any other word,
    and where a program of that name is in PATH."""
    if not argv or shutil.which(argv[0]) or argv[0] not in _listed():
        return None
    threads = next((after for word, after in itertools.pairwise(argv) if word in ("--threads", "-n")), "1")
    return Program(
        name=argv[0],
        title=" ".join(argv),
        command=(str(find_mutator(argv[0])), *argv[1:], "--json", f"{{dir}}/{RESULT_FILE}"),
        threads=int(threads) if threads.isdecimal() else 1,
        answer=Answer(output="ignore"),
        provenance=f"heapyard mutator {argv[0]}",
        mutator=True,
    )


@functools.cache
def option_names(mutator: Path) -> frozenset[str]:
    """Long options a mutator knows, as its own help lists them. One launch."""
    done = subprocess.run([mutator, "--help"], capture_output=True, text=True, timeout=20)
    return frozenset(_OPTION.findall(done.stdout))


def arguments(options: Mapping[str, Value], levels: Mapping[str, str] = {}) -> tuple[str, ...]:
    """Options as words: `{"threads": 4, "access": True}` as `--threads 4 --access`; False is left out.

    Formulas are evaluated at `levels`. UsageError for a formula that cannot be.
    """
    words: list[str] = []
    for name, value in options.items():
        if isinstance(value, bool):
            words += [f"--{name}"] if value else []
        else:
            words += [f"--{name}", evaluate(value, levels) if isinstance(value, str) else str(value)]
    return tuple(words)


def workloads(
    name: str,
    options: Mapping[str, Value],
    factors: Mapping[str, Sequence[Value]],
    only: Iterable[str] = (),
    constraints: Sequence[str] = (),
    fraction: Fraction | None = None,
) -> tuple[Program, ...]:
    """The mutator at every combination of levels that meets the constraints and lies in the fraction, first factor
    slowest; paths absolute.

    A factor is an option of the mutator, a parameter that formulas of `options` use, or `processors`: how many of this
    machine's the program may use. `only`: further option names that treatments use. UsageError for an option the mutator
    does not know, a factor without effect, or when no combination is left.
    """
    path = find_mutator(name)
    known = option_names(path)
    used = {n for value in options.values() if isinstance(value, str) for n in names_in(value)}
    for option in (*options, *only):
        _check_known(name, option, known)
    for factor in factors:
        if factor != PROCESSORS and factor.replace("-", "_") not in used:
            _check_known(name, factor, known, "; nor does an option's formula use it")
    every = (
        {name: factors[name][i] for name, i in indices.items()}
        for indices in (
            dict(zip(factors, chosen, strict=True))
            for chosen in itertools.product(*(range(len(levels)) for levels in factors.values()))
        )
        if fraction is None or fraction.keeps(indices)
    )
    texts = ((chosen, {factor: level_text(value) for factor, value in chosen.items()}) for chosen in every)
    made = tuple(
        _workload(name, path, options, chosen, factors, known)
        for chosen, levels in texts
        if all(holds(constraint, levels) for constraint in constraints)
    )
    if not made:
        raise UsageError(f"no combination of levels meets the constraints {'; '.join(constraints)}")
    return made


def _workload(
    name: str,
    path: Path,
    options: Mapping[str, Value],
    chosen: Mapping[str, Value],
    factors: Mapping[str, Sequence[Value]],
    known: frozenset[str],
) -> Program:
    levels = {factor: level_text(value) for factor, value in chosen.items()}
    direct = {factor: value for factor, value in chosen.items() if factor in known}
    words = arguments({**options, **direct}, levels)
    shown = [f"{factor}={level}" for factor, level in levels.items() if len(factors[factor]) > 1]
    threads = words[words.index("--threads") + 1] if "--threads" in words else "1"
    return Program(
        name=" ".join([name, *shown]),
        title=f"mutator {name}" + (f" at {', '.join(shown)}" if shown else ""),
        command=(str(path), *words, "--json", f"{{dir}}/{RESULT_FILE}"),
        threads=int(threads),
        answer=Answer(output="consistent"),
        provenance=f"heapyard mutator {name}",
        mutator=True,
        processors=int(levels.get(PROCESSORS, 0)),
        levels={"threads": threads, **levels},
    )


def level_text(value: Value) -> str:
    """A level as labels and records show it: an option that is on or off as true or false."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_known(name: str, option: str, known: frozenset[str], more: str = "") -> None:
    if option not in known:
        raise UsageError(
            f"the mutator {name} has no option --{option}{more}", remedy=f"{places.native(name)} --help lists them."
        )

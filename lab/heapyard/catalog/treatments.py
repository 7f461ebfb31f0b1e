# SPDX-License-Identifier: Apache-2.0
"""Crossing allocators with the levels of other factors into treatments, the A/A control included."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..model.allocator import Allocator
from ..model.errors import UsageError
from ..model.experiment import CONTROL_SUFFIX, Treatment
from ..model.huge_pages import FACTOR as THP
from ..model.huge_pages import LEVELS as THP_LEVELS
from .allocators import find_allocators
from .elf import exported
from .own_heaps import sampled_variant

TRACER_LEVELS = ("off", "sampled", "exact", "pages")
TREATMENT_FACTORS = (THP, "cpus", "tracer")  # and env.NAME
_ENV = "env."


def cross(
    allocators: Sequence[Allocator],
    factors: Mapping[str, Sequence[str]],
    baseline: str,
    own: Mapping[str, tuple[Allocator, tuple[str, ...]]] = {},
) -> tuple[tuple[Treatment, ...], str]:
    """Every allocator at every combination of levels, then the control; and the label of the baseline.

    `own`: further treatments by name, each an allocator with arguments that it adds to the program's.

    The baseline is the allocator of that name at the first level of every factor. A factor of one level is a condition
    of all treatments and does not show in their labels. UsageError when the baseline is not among the allocators or a
    level is none of its factor's. O(treatments).
    """
    if baseline not in (a.name for a in allocators):
        raise UsageError(
            f"the baseline '{baseline}' is not among the allocators {', '.join(a.name for a in allocators)}"
        )
    for factor, levels in factors.items():
        check_levels(factor, levels)
    if "pages" in factors.get("tracer", ()):
        mute = [a.name for a in allocators if a.library is None or not exported(a.library, ["heapyard_observe_pages"])]
        if mute:
            raise UsageError(f"level 'pages' of tracer needs a heap that reports its pages; {mute[0]} does not")
    every = [*((a.name, a, ()) for a in allocators), *((name, *what) for name, what in own.items())]
    treatments = [
        Treatment(_label(name, levels, factors), _traced(allocator, levels), levels, arguments=arguments)
        for name, allocator, arguments in every
        for levels in (dict(zip(factors, chosen, strict=True)) for chosen in itertools.product(*factors.values()))
    ]
    base = treatments[next(i for i, a in enumerate(allocators) if a.name == baseline) * (len(treatments) // len(every))]
    control = Treatment(base.label + CONTROL_SUFFIX, base.allocator, base.levels, role="control")
    return (*treatments, control), base.label


def _traced(allocator: Allocator, levels: Mapping[str, str]) -> Allocator:
    """What serves at these levels: a heap of ours is sampled from within, as its variant for that."""
    variant = sampled_variant(allocator.library) if levels.get("tracer") == "sampled" else None
    if variant is None:
        return allocator
    [found] = find_allocators([variant.stem.removeprefix("lib")])
    return replace(found, name=allocator.name)


def check_levels(factor: str, levels: Sequence[str]) -> None:
    """UsageError in one sentence when a factor is unknown or one of its levels makes no sense on this machine."""
    if not levels:
        raise UsageError(f"factor '{factor}' has no levels")
    if len(set(levels)) < len(levels):
        raise UsageError(f"factor '{factor}' has the same level twice")
    if factor == THP:
        wrong = [level for level in levels if level not in THP_LEVELS]
        if wrong:
            raise UsageError(f"'{wrong[0]}' is not a level of thp; the levels are {', '.join(THP_LEVELS)}")
    elif factor == "tracer":
        wrong = [level for level in levels if level not in TRACER_LEVELS]
        if wrong:
            raise UsageError(f"'{wrong[0]}' is not a level of tracer; the levels are {', '.join(TRACER_LEVELS)}")
    elif factor == "cpus":
        for level in levels:
            parse_cpus(level)
    elif not (factor.startswith(_ENV) and len(factor) > len(_ENV) and not {"=", "\0"} & set(factor)):
        raise UsageError(f"there is no factor '{factor}'; the factors are thp, cpus, tracer and env.NAME")


def parse_cpus(text: str) -> tuple[int, ...]:
    """`0`, `0,2`, `0-3` as CPU numbers, ascending; UsageError when malformed or when this process may not use one."""
    found, allowed = set[int](), os.sched_getaffinity(0)
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        numbers = [int(number) for number in (first, last) if number.isdecimal() and len(number) < 10]
        if len(numbers) != (2 if dash else 1) or numbers[-1] < numbers[0]:
            raise UsageError(f"'{text}' is not a list of CPUs; write for example 0,1 or 0-3")
        # Of numbers beyond the machine's, the first is enough.
        found |= {numbers[0], *range(numbers[0], min(numbers[-1], max(allowed) + 1) + 1)}
    missing = sorted(found - allowed)
    if missing:
        raise UsageError(
            f"CPU {missing[0]} cannot be used here; this process may use {', '.join(map(str, sorted(allowed)))}"
        )
    return tuple(sorted(found))


def _label(name: str, levels: Mapping[str, str], factors: Mapping[str, Sequence[str]]) -> str:
    shown = [f"{f.removeprefix(_ENV)}={level}" for f, level in levels.items() if len(factors[f]) > 1]
    return f"{name} [{', '.join(shown)}]" if shown else name

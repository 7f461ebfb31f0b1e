# SPDX-License-Identifier: Apache-2.0
"""What is checked before the first trial: a request that cannot work costs a second and one sentence, not an experiment."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from signal import Signals

from ..model import places
from ..model.errors import SetupError, UsageError
from ..model.experiment import Settings, Treatment
from ..model.program import Answer, Program
from ..model.simulation import Simulated
from .launcher import launcher
from .scratch import ScratchFolder
from .trial import run_trial
from .trial_environment import WITNESS, cpus_of

PROBE = Program(name="probe", title="nothing", command=("/bin/true",), answer=Answer(output="ignore"))
PROBE_SECONDS = 20.0  # a library that keeps /bin/true busy for longer hangs


def check(treatments: Iterable[Treatment], settings: Settings) -> None:
    """UsageError for the first treatment that cannot work here, SetupError when a native part is missing.

    Each distinct library is loaded once into /bin/true: what does not load there, crashes there, or does not serve
    malloc there needs no experiment. About 10 ms per library.
    """
    launcher()
    if not places.native(WITNESS).exists():
        raise SetupError(
            f"the native part {places.native(WITNESS)} is missing",
            remedy=places.repair(),
        )
    seen: set[tuple[str, ...]] = set()
    for treatment in treatments:
        _check_cpus(treatment, settings)
        allocator = treatment.allocator
        if allocator.library is not None and not allocator.library.is_file():
            raise UsageError(f"the library of {allocator.name}, {allocator.library}, does not exist")
        key = (str(allocator.library), *(f"{n}={v}" for n, v in sorted(allocator.env.items())))
        if key not in seen:
            seen.add(key)
            _probe(treatment, settings)


def _check_cpus(treatment: Treatment, settings: Settings) -> None:
    allowed = os.sched_getaffinity(0)
    for cpu in cpus_of(treatment, settings):
        if cpu not in allowed:
            raise UsageError(
                f"there is no CPU {cpu} to pin to; this machine lets us use {', '.join(map(str, sorted(allowed)))}"
            )


def _probe(treatment: Treatment, settings: Settings) -> None:
    with ScratchFolder() as folder:
        # On this machine itself: whether a library serves a program does not depend on who executes it.
        here = replace(settings, timeout=PROBE_SECONDS, simulated=Simulated())
        outcome = run_trial(PROBE, treatment, here, pad=0, folder=folder)
    if outcome.status != "failed":
        return
    library, name = treatment.allocator.library, treatment.allocator.name
    if outcome.signal is not None and outcome.failure != "timeout":
        known = outcome.signal in Signals._value2member_map_
        signal = f"{outcome.signal}, {Signals(outcome.signal).name}" if known else str(outcome.signal)
        raise UsageError(f"{name} cannot be used: {library} crashes when loaded into /bin/true (signal {signal})")
    if outcome.failure == "timeout":
        raise UsageError(f"{name} cannot be used: {library} hangs when loaded into /bin/true")
    raise UsageError(f"{name} cannot be used: {outcome.reason}")

# SPDX-License-Identifier: Apache-2.0
"""Counts that would disturb a measurement, in separate launches: system calls by strace, instructions by valgrind.

They hardly vary, so they are made beside the trials of the first rounds only.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..model.errors import HeapyardError, SetupError
from ..model.experiment import Settings, Treatment, TrialOutcome
from ..model.program import Program
from .huge_pages import given
from .launcher import Running
from .server import serve
from .trial import prepare_launch
from .trial_environment import Scene, additions, plain_environment, set_scene
from .witness import objection, read_testimonies

COUNTED_ROUNDS = 3  # of each workload: enough to see whether a count varies at all
SYSCALLS = ("mmap", "munmap", "madvise", "brk")
SLOWDOWN = 100  # valgrind's, at worst: the time limit of a counting launch is so many times that of a trial

Count = Callable[[Program, Treatment, Settings, Path], dict[str, float]]


def counts_for(settings: Settings) -> tuple[Count, ...]:
    """The counting launches that the settings ask for."""
    wanted = ((settings.count_syscalls, count_syscalls), (settings.count_instructions, count_instructions))
    return tuple(count for asked, count in wanted if asked)


def still_wanted(count: Count, outcome: TrialOutcome) -> bool:
    """Instructions need no launch of their own where the hardware has counted them already."""
    return not (count.__name__ == "count_instructions" and "instructions" in outcome.metrics)


def count_syscalls(program: Program, treatment: Treatment, settings: Settings, folder: Path) -> dict[str, float]:
    """Calls of mmap, munmap, madvise and brk by the whole tree, as `<name>_calls`, in one launch under strace.

    The table counts what the kernel was asked, the dynamic linker's calls included. HeapyardError if the launch fails,
    SetupError without strace.
    """
    tool = _tool("strace")
    scene = set_scene(folder, program)
    table = scene.lab / "strace"
    added = additions(program, treatment, scene, pad=0)
    # The environment is given to the program alone: strace itself stays on its own malloc.
    options = [word for name, value in added.items() for word in ("-E", f"{name}={value}")]
    _launch(
        [tool, "-f", "-qq", "-c", "-U", "name,calls", "-e", f"trace={','.join(SYSCALLS)}", "-o", str(table), *options],
        program,
        treatment,
        settings,
        scene,
    )
    counts = dict.fromkeys(SYSCALLS, 0.0)
    for line in table.read_text(errors="replace").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] in counts and words[1].isdecimal():
            counts[words[0]] = float(words[1])
    return {f"{name}_calls": count for name, count in counts.items()}


def count_instructions(program: Program, treatment: Treatment, settings: Settings, folder: Path) -> dict[str, float]:
    """Instructions in user space of the whole tree, as `instructions`, in one launch under valgrind.

    30 to 100 times slower than the program; the C library's and the program's own instructions are included.
    """
    tool = _tool("valgrind")
    scene = set_scene(folder, program)
    logs = scene.lab / "valgrind.%p"
    added = additions(program, treatment, scene, pad=0)
    setting = [f"{name}={value}" for name, value in added.items()]
    _launch(
        [
            tool,
            "--tool=callgrind",
            "--trace-children=yes",
            "--callgrind-out-file=/dev/null",
            f"--log-file={logs}",
            "/usr/bin/env",
            *setting,
        ],
        program,
        treatment,
        settings,
        scene,
    )
    total = 0
    for log in scene.lab.glob("valgrind.*"):
        found = re.findall(r"Collected : (\d+)", log.read_text(errors="replace"))
        total += int(found[-1]) if found else 0
    if total == 0:
        raise HeapyardError(f"valgrind counted nothing for {program.name} under {treatment.label}")
    return {"instructions": float(total)}


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise SetupError(f"counting needs {name}", remedy=f"Install it: apt-get install {name}")
    return path


def _launch(prefix: Sequence[str], program: Program, treatment: Treatment, settings: Settings, scene: Scene) -> None:
    plain = prepare_launch(program, treatment, settings, scene, pad=0)
    launch = replace(
        plain,
        command=[*prefix, *plain.command],
        argv0="",
        env=plain_environment(program, scene),
        sample=False,
        library=None,
        timeout=settings.timeout * SLOWDOWN,
    )
    with given(treatment, settings), Running(launch) as running:
        client = serve(program, running, scene, settings, None) if program.server else None
        if client is None or not client.failed:
            running.wait()
    found, complaint = running.result()
    where = f"{program.name} under {treatment.label} and {Path(prefix[0]).name}"
    if client and client.failed:
        raise HeapyardError(f"{where}: {client.failed}")
    if found.get("status") != "exited" or found.get("exit_code") != program.answer.exit_code:
        ending = found.get("exit_code", found.get("signal"))
        raise HeapyardError(f"{where} did not end as it should: {complaint or found.get('status', '')} {ending}")
    testimonies = read_testimonies(scene.lab / "witness")
    last = testimonies[0].pid if testimonies else -1
    doubt = objection(testimonies, [], last, treatment.allocator, "")
    if doubt:
        raise HeapyardError(f"{where}: {doubt}")
